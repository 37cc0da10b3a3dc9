from __future__ import annotations

from typing import Any, Callable, Iterator, Optional


def pages(first: Optional[str], ask: Callable[[Optional[str]], Any]) -> Iterator[Any]:
    """Yields the elements of a list, and asks for the next page when it is needed."""
    after = first
    while True:
        page = ask(after)
        yield from page["data"]
        after = page["next"]
        if after is None:
            return
