"""The core: turns rows of Parquet into batches, alone and without any room.

Its folders, each a layer that imports those before it: ``_base``, ``storage`` (files of
this machine), ``dataset`` (the index of pages, rows and spans), ``sequences``
(``Windows`` and ``Packed``), ``order``, ``run``, ``batches``; and ``loader``. The rooms
beside it are what else there is. :mod:`pagefeed.contract` says what they stand on.
"""
