"""Credentials of Amazon's S3, from the same sources as Amazon's own tools.

:func:`find_keys` says which source is set up. Keys of options and variables, and those
that botocore has of a profile, it returns. The services of web identity, containers and
instances it names: the data plane asks these itself. :func:`profile_settings` reads
region and endpoint of a profile.
"""

from pagefeed.remote.credentials.chain import environment, find_keys
from pagefeed.remote.credentials.keys import AccessKeys, KeyService
from pagefeed.remote.credentials.profiles import profile_settings

__all__ = ["AccessKeys", "KeyService", "environment", "find_keys", "profile_settings"]
