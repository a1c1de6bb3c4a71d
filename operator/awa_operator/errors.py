"""Everything the operator raises.

OperatorError
├── SettingsError                 an AWA_OPERATOR_ variable cannot be used
├── NotLeading                    the lease is not held, so nothing may be written
├── WriteStopped                  a hook asked the executor to stop before a write
└── ApiError                      the API server refused or did not answer
    ├── ApiConflict               the object changed since it was read, or already exists
    │   └── AlreadyExists
    ├── ApiGone                   the object, its kind or the version asked for is not there
    ├── ApiForbidden              a right is missing, or a quota or an admission check refused
    ├── ApiInvalid                the object breaks a rule of its schema or an admission check
    ├── ApiTooManyRequests        asked to come back later
    └── ApiUnavailable            no answer, or an internal error

Messages say what happened and never contain what a Secret or a connection string holds.
"""

from datetime import timedelta


class OperatorError(Exception):
    """The root of every error of the operator."""


class SettingsError(OperatorError):
    """One or more settings cannot be used; the message names each variable and what it takes."""


class NotLeading(OperatorError):
    """The lease is not held, so nothing was written. Another replica acts, or soon will."""


class WriteStopped(OperatorError):
    """A hook of the executor asked to stop; the writes before it were made."""


class ApiError(OperatorError):
    """The API server refused a request or did not answer it.

    `status` is the HTTP status, 0 when there was no answer; `reason` is Kubernetes' word for it;
    `detail` is the server's sentence, at most 1,024 characters.
    """

    def __init__(self, what: str, *, status: int = 0, reason: str = "", detail: str = "") -> None:
        self.what = what
        self.status = status
        self.reason = reason
        self.detail = detail[:1024]
        told = self.detail or reason or "no answer"
        super().__init__(f"{what}: {told} ({status})" if status else f"{what}: {told}")


class ApiConflict(ApiError):
    """The object changed since it was read. Look again and decide again."""


class AlreadyExists(ApiConflict):
    """An object of this name exists. Look again: another replica may have created it."""


class ApiGone(ApiError):
    """The object, its kind or the resource version asked for is not there (404, 410)."""


class ApiForbidden(ApiError):
    """A right is missing, a quota is used up, or an admission check refused (401, 403)."""


class ApiInvalid(ApiError):
    """The object breaks a rule of its schema, or an admission check says so (400, 422)."""


class ApiTooManyRequests(ApiError):
    """The API server asks to come back after `retry_after`."""

    def __init__(
        self,
        what: str,
        *,
        status: int = 429,
        reason: str = "",
        detail: str = "",
        retry_after: timedelta = timedelta(seconds=1),
    ) -> None:
        super().__init__(what, status=status, reason=reason, detail=detail)
        self.retry_after = retry_after


class ApiUnavailable(ApiError):
    """The API server did not answer, or answered with an internal error. Try again later."""
