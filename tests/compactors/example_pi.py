from compactctl import Message, Summarizer, SummaryRequest, estimate_tokens


class Pi:
    """Follows pi 0.73: near the end of the window all but the newest 20,000 tokens become a summary."""

    def __init__(
        self, context_window: int, summarizer: Summarizer, reserve: int = 16_384, keep_recent: int = 20_000
    ) -> None:
        self.limit, self.keep, self.summarizer = context_window - reserve, keep_recent, summarizer

    def compact(self, messages: list[Message]) -> list[Message]:
        if estimate_tokens(messages) <= self.limit:
            return messages
        start = 1 if messages[0].role == "system" else 0
        cut = len(messages) - 1
        while cut > start and estimate_tokens(messages[cut - 1 :]) <= self.keep:
            cut -= 1
        while cut > start and messages[cut].role == "tool":  # never begin with a result whose call is gone
            cut -= 1
        if cut <= start + 1:
            return messages
        reply = self.summarizer.summarize(SummaryRequest(messages[start:cut]))
        return [*messages[:start], Message("user", reply.text), *messages[cut:]]
