"""Asks botocore for keys: a program, which answers in JSON on its output."""

import json
import sys

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
)
from botocore.session import Session


def ask() -> tuple[str, object]:
    """Return keys with the time of their expiry, or why there are none."""
    session = Session()
    retries = {"mode": "standard", "total_max_attempts": 3}
    limits = Config(connect_timeout=5, read_timeout=5, retries=retries)
    session.set_default_client_config(limits)
    try:
        credentials = session.get_credentials()
        keys = credentials and credentials.get_frozen_credentials()
    except ClientError as error:
        status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
        shown = f"{status} {error.response['Error'].get('Code', '')}"
        kind = "silent" if status == 429 or status >= 500 else "refused"
        return kind, f"{error.operation_name} is refused ({shown})"
    except (ConnectionError, HTTPClientError) as error:
        return "silent", f"no answer from {error.kwargs.get('endpoint_url')}"
    except BotoCoreError as error:
        # These messages have what a program or service said, which may be secret.
        is_secret = isinstance(error, CredentialRetrievalError | MetadataRetrievalError)
        shown = f"{error.kwargs.get('provider', 'a service')} gives none"
        return "refused", shown if is_secret else f"{error}".rstrip(".")
    except Exception as error:  # noqa: BLE001
        return "refused", f"botocore fails ({type(error).__name__})"
    if keys is None:
        return "refused", "it names no credentials"
    # botocore has no public name for the time of expiry.
    until = getattr(credentials, "_expiry_time", None)
    expires = None if until is None else until.timestamp()
    return "keys", [keys.access_key, keys.secret_key, keys.token or None, expires]


if __name__ == "__main__":
    json.dump(ask(), sys.stdout)
