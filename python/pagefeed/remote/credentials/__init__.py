"""Credentials of Amazon's S3, from the same sources as Amazon's own tools.

:func:`find_keys` asks the sources in order. :func:`profile_settings` reads region and
endpoint of a profile. Nothing here is needed where options or variables name no bucket
of S3.
"""

from pagefeed.remote.credentials.chain import environment, find_keys
from pagefeed.remote.credentials.keys import AccessKeys
from pagefeed.remote.credentials.profiles import profile_settings

__all__ = ["AccessKeys", "environment", "find_keys", "profile_settings"]
