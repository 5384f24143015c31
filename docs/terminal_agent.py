"""An agent at a terminal, of Pydantic AI: what it is about to do waits for people in Slack.

make agent    # beside a demo that runs

It asks the Countersign of COUNTERSIGN_URL with the key of COUNTERSIGN_API_KEY.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_ai import Agent

from countersign import asking, countersigned

CHANNEL = "#support"  # where people are asked
MODEL = os.environ.get("OPENAI_MODEL") or "gpt-5"


@countersigned(title="Put on sale", effect="Put {product} on sale, {percent} % off", tells_why=True)
def put_on_sale(product: str, percent: Annotated[int, Field(ge=1, le=50)]) -> str:
    """Sell a product for so many percent less from now on."""
    with Path("sale.txt").open("a") as file:
        file.write(f"{product}: {percent} % off\n")
    return f"{product}: {percent} % off, as sale.txt says"


def main() -> None:
    """Do what the command line says, or what is typed line by line until Ctrl-D."""
    agent = Agent(f"openai-responses:{MODEL}", tools=[put_on_sale])
    orders = iter([" ".join(sys.argv[1:])]) if sys.argv[1:] else iter(typed, "")
    said = None
    for order in orders:
        sys.stdout.write(f"What it wants to do waits in {CHANNEL} …\n")
        sys.stdout.flush()
        with asking(channel=CHANNEL):
            answered = agent.run_sync(order, message_history=said)
        said = answered.all_messages()
        sys.stdout.write(f"{answered.output}\n")


def typed() -> str:
    """Return the next line that somebody types; "" when there is none."""
    try:
        return input("You: ")
    except (EOFError, KeyboardInterrupt):
        return ""


if __name__ == "__main__":
    main()
