"""What people say about an answer: actions, the state that they make of it, and the answer that follows."""

from newkinds.corrections.actions import (
    FRESH,
    Accept,
    Action,
    Again,
    Batch,
    Confirm,
    CorrectionError,
    Merge,
    Move,
    Name,
    Part,
    Redo,
    Reject,
    Reopen,
    Split,
    Undo,
    parse_action,
)
from newkinds.corrections.corrected import corrected
from newkinds.corrections.history import History
from newkinds.corrections.state import State
from newkinds.corrections.words import in_words

__all__ = [
    "FRESH",
    "Accept",
    "Action",
    "Again",
    "Batch",
    "Confirm",
    "CorrectionError",
    "History",
    "Merge",
    "Move",
    "Name",
    "Part",
    "Redo",
    "Reject",
    "Reopen",
    "Split",
    "State",
    "Undo",
    "corrected",
    "in_words",
    "parse_action",
]
