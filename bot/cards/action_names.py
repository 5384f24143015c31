"""The ids of buttons, menus, dialogs, blocks and inputs in Slack. Pure.

The ids never change, since people click old cards. The values that buttons carry are read and
written by `button_codec` alone.
"""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What a click asks for: the action id of a button, or a choice in the card's menu."""

    APPROVE = "approve"  # one call, as it is shown
    REVIEW = "review"  # open the dialog that shows all of one call; also a choice
    EDIT = "edit"  # open the form with one call's arguments
    REJECT_NOW = "reject_now"  # one call, without a reason
    REJECT = "reject"  # open the dialog that asks for a reason, for one call; also a choice
    APPROVE_ALL = "approve_all"  # all pending calls of one card
    REJECT_ALL = "reject_all"  # open the dialog that asks for a reason, for the whole card
    SEND_BACK = "send_back"  # open the dialog for a remark on the plan; a choice only
    BREAK_GLASS = "break_glass"  # open the dialog to run a call without approval; a choice only
    LOOKED_AT = "looked_at"  # somebody has looked at a call that ran without approval
    OBJECT = "object"  # open the dialog that asks what is wrong with such a call
    HAND_OVER = "hand_over"  # open the dialog that hands one call over; also a choice
    ROWS = "rows"  # send all rows, if the preview shows only some; a choice only
    WITHDRAW = "withdraw"  # the requester takes one call back; a choice only
    CANCEL_RUN = "cancel_run"  # the requester stops the whole request; also a choice
    RETRY = "retry"  # go on with a request that failed
    RESOLVE_DONE = "resolve_done"  # a call of unknown outcome did happen
    RESOLVE_NOT_DONE = "resolve_not_done"  # it did not happen
    RUN_AGAIN = "run_again"
    REVOKE = "revoke"  # revoke the grant that was saved when this call was approved
    REQUEST = "request"  # choose what to ask for, without the agent
    PICK = "pick"  # open the form of the tool or template that was chosen
    ASK_AGAIN = "ask_again"  # open the form with one call's values; a choice only
    HOME_ALL = "home_all"  # show the overview, with the first few of everything
    HOME_WAITING = "home_waiting"  # everything that waits for this person, page by page
    HOME_MINE = "home_mine"  # everything they have requested
    HOME_BEFORE = "home_before"  # the previous page
    HOME_NEXT = "home_next"  # the next page
    HOME_CHANNEL = "home_channel"  # only requests from the chosen channel
    HOME_ANYWHERE = "home_anywhere"  # requests from any channel again
    HOME_PASSKEYS = "home_passkeys"  # their passkeys
    ADD_PASSKEY = "add_passkey"  # get a private link to add one
    RENAME_PASSKEY = "rename_passkey"  # open the dialog that names one
    REVOKE_PASSKEY = "revoke_passkey"  # nothing can be signed with it any more
    DISOWN_PASSKEY = "disown_passkey"  # the same, because somebody else added it
    DELEGATE = "delegate"  # open the dialog to let somebody else decide for this person
    END_DELEGATION = "end_delegation"  # nobody decides for this person any more
    FEEDBACK = "feedback"  # thumbs up or down for an answer
    CHOOSE_1 = "choose_1"  # answer with the first choice, or with yes
    CHOOSE_2 = "choose_2"  # with the second choice, or with no
    CHOOSE_3 = "choose_3"
    CHOOSE_4 = "choose_4"
    CHOOSE_5 = "choose_5"
    ANSWER = "answer"  # open the form of a question
    DECLINE = "decline"  # say that one cannot answer a question
    LOOK_WAITING = "look_waiting"  # replace the message by what waits for this person
    LOOK_REQUESTS = "look_requests"  # their own requests
    LOOK_HISTORY = "look_history"  # recent decisions
    LOOK_GRANTS = "look_grants"  # saved approvals
    LOOK_HELP = "look_help"  # what can be asked for
    LOOK_SHOW = "look_show"  # one request's whole history
    OPEN_PAGE = "open_page"  # a link: the browser opens it, so there is nothing to do


OVERFLOW_MENU_ACTION_ID = "more"  # the value says which action was chosen


class DialogId(StrEnum):
    """The callback id of a dialog."""

    REVIEW = "review_call"
    EDIT = "edit_call"
    REJECT = "reject"
    SEND_BACK = "send_back"
    BREAK_GLASS = "break_glass"
    OBJECT = "object"
    PICK = "pick_request"  # choosing what to ask for
    REQUEST = "new_request"  # the form of a tool or a template
    ANSWER = "answer"
    DELEGATE = "delegate"
    HAND_OVER = "hand_over_call"
    RENAME_PASSKEY = "rename_passkey"


class ShortcutId(StrEnum):
    """The callback id of a shortcut, as declared in the app manifest."""

    ASK = "ask_with_a_form"  # from anywhere in Slack
    ASK_ABOUT = "ask_about_a_message"  # in the menu of a message


class BlockRole(StrEnum):
    """What a block of a message or of Home is for; the block's id begins with it."""

    PART = "part"  # "Part 1 of 2"
    ELSEWHERE = "l"  # tells the requester where people decide
    REQUEST = "x"
    REWORDED = "y"
    DELEGATED_TASKS = "z"  # the sub-agents' tasks that led to the calls
    SERVER = "b"  # which MCP server asks a question, and during which task
    PROGRAM = "j"  # which program asks, and executes the call itself
    DIVIDER = "d"
    HEADLINE = "h"
    WARNING = "w"
    SHORT_VALUES = "g"
    VALUES = "v"
    MISSING = "m"
    SMALL_PRINT = "c"
    AGENT_WORDS = "q"
    PROGRESS = "s"
    CALL_BUTTONS = "a"
    VIEWERS = "eyes"  # people who have a call of the card open in a dialog
    HEAD = "e"  # heading of a plan with several calls
    ASKED = "u"
    HEAD_BUTTONS = "p"
    OUTCOME = "o"
    RESOLUTIONS = "r"
    LOOKS = "n"  # the buttons of people who look at what ran without approval
    RETRY = "t"
    FEEDBACK = "f"
    RECORD = "rec"
    CUT = "cut"  # why a model's answer is incomplete
    PICKER = "pick"
    SIGNING = "sign"  # a link to the page where people sign
    PLACE = "where"  # where a form's request will be made
    QUESTION = "k"
    ANSWERS = "ks"  # the buttons that answer a question
    OVERVIEW = "ov"  # the sections of the answer to `/approvals`
    DELEGATION = "del"  # one delegation
    PASSKEY = "pk"  # a person's passkey
    HOME_CHANNEL = "homec"  # the channel filter of the Home tab, with the page shown
    HOME = "home"  # other parts of the Home tab; its calls and requests have the roles of cards


class InputBlockId(StrEnum):
    """The block id of an input in a dialog; the edit form adds one for each argument."""

    NOTE = "note"
    REMEMBER = "remember"
    WORDS = "words"
    REASON = "reason"
    APPROVE_TOO = "then"
    WHY = "why"
    DELEGATE = "delegate"
    ASSIGNEE = "assignee"
    UNTIL = "until"


ARGUMENT_BLOCK_ID_PREFIX = "f:"


class InputElementId(StrEnum):
    """The action id of the element inside a dialog's input."""

    TEXT = "text"
    OFFER = "offer"
    PRESET = "preset"
    PERSON = "person"
    MOMENT = "moment"
    VALUE = "v"
