"""The core: turns rows of Parquet into batches, without needing any room.

Each folder is a layer that imports only the layers before it: ``_base``, ``storage``
(files of this machine), ``dataset`` (the index of pages, rows and spans), ``sequences``
(``Windows`` and ``Packed``), ``order``, ``run``, ``batches``; and last ``loader``. All
other folders of the package are rooms. :mod:`pagefeed.contract` lists the interfaces
that they use.
"""
