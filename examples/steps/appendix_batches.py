"""Appendix: batches. In 2025-03-26, a line may hold an array of messages.

    python3 appendix_batches.py <lines/batch.jsonl

This server adds a subclass to step 4, and changes nothing in it. README.md explains it.
"""

from __future__ import annotations

import importlib
from typing import Any, List

step: Any = importlib.import_module("4_stdout")  # `import` cannot begin with a digit


class BatchSession(step.Session):  # type: ignore[misc]
    """A session that also speaks 2025-03-26, the only revision with batches."""

    revisions = sorted([*step.Session.revisions, "2025-03-26"])

    def take(self, line: bytes) -> Any:
        """Return the response, or an array of responses, or None for no response."""
        if self.revision == "2025-03-26" and line.lstrip().startswith(b"["):
            try:
                batch = step.decode(line)
            except step.RpcError as error:
                return self.error_response(None, error)
            if batch:  # an empty array is not a batch
                return self.take_batch(batch)
        return super().take(line)  # this refuses all other arrays

    def take_batch(self, batch: List[Any]) -> Any:
        """Return one array with the responses to the members of a batch."""
        responses = []
        for message in batch:
            response = self.take_message(message)
            if response is not None:
                responses.append(response)
        return responses or None  # an empty array must not be sent


if __name__ == "__main__":
    step.serve(BatchSession())
