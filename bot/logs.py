"""What is logged, without the secrets in it that are known by their look.

Decides nothing about what is logged.
"""

from __future__ import annotations

import logging

from storage.masking import masked

_PLAIN = logging.Formatter()


class Masking(logging.Filter):
    """Masks a record, its traceback too, before the handler it is on writes it.

    Lets every record through.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """True, with the record masked in place."""
        record.msg, record.args = masked(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = masked(record.exc_text)
        return True


def mask_logs() -> None:
    """From now on the handlers there are at the root write nothing that looks like a secret."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, Masking) for each in handler.filters):
            handler.addFilter(Masking())
