"""What providers of models answer, in each of their dialects: bodies, streams, errors.

A dialect knows the paths of one API, what a request asks for at most, and how an answer tells its usage. It
makes bodies and events alone; provider.py sends them.
"""

import binascii
import json
import re
import struct
import urllib.parse
from dataclasses import dataclass, field

CREATED = 1_790_000_000


@dataclass
class Usage:
    """Tokens as they are, each kind by itself: `input` has none of `cached` and `cache_write`."""
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0  # within `output`

    def kinds(self):
        return {"input": self.input, "cached": self.cached, "cache_write": self.cache_write,
                "output": self.output}


@dataclass
class Answer:
    """What is sent for one request."""
    model: str
    usage: Usage
    texts: list  # of each choice: its pieces
    finished: bool = True  # no maximum cut it short
    tells_usage: bool = True
    message_deltas: int = 1  # of Anthropic's streams
    fields: list = field(default_factory=list)  # further fields of the answer


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def words_in(value):
    """How many words the texts of a request have: what the provider takes for its tokens."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, list):
        return sum(map(words_in, value))
    if isinstance(value, dict):
        return sum(words_in(one) for name, one in value.items() if name not in ("role", "type"))
    return 0


def event(data, name=None):
    return (f"event: {name}\n" if name else "").encode() + f"data: {compact(data)}\n\n".encode()


class Dialect:
    media_type = "application/json"
    stream_type = "text/event-stream; charset=utf-8"
    prompts = ("messages",)  # members of the request that hold the prompt

    def prompt(self, body):
        return words_in([body.get(name) for name in self.prompts])

    def model(self, body, _path):
        return body.get("model", "none")

    def streams(self, body, _path):
        return body.get("stream") is True

    def choices(self, _body):
        return 1

    def fields(self):
        """What the provider says about its own limits."""
        return []

    def error_fields(self, _status):
        return []


class OpenAI(Dialect):
    """Chat completions."""
    paths = re.compile(r"^/v1/chat/completions$")

    def maximum(self, body):
        return body.get("max_completion_tokens", body.get("max_tokens"))

    def choices(self, body):
        return body.get("n") or 1

    def fields(self):
        return [("x-ratelimit-limit-requests", "9999"), ("x-ratelimit-remaining-requests", "9998"),
                ("x-ratelimit-reset-requests", "17ms"), ("x-ratelimit-limit-tokens", "999999"),
                ("x-ratelimit-remaining-tokens", "999998"), ("x-ratelimit-reset-tokens", "19ms"),
                ("openai-processing-ms", "12")]

    def usage(self, usage):
        prompt = usage.input + usage.cached + usage.cache_write
        return {"prompt_tokens": prompt, "completion_tokens": usage.output,
                "total_tokens": prompt + usage.output,
                "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0,
                                              "accepted_prediction_tokens": 0,
                                              "rejected_prediction_tokens": 0}}

    def whole(self, answer):
        made = {"id": "chatcmpl-trial", "object": "chat.completion", "created": CREATED, "model": answer.model,
                "choices": [{"index": number, "message": {"role": "assistant", "content": "".join(pieces),
                                                          "refusal": None, "annotations": []},
                             "logprobs": None, "finish_reason": self.reason(answer)}
                            for number, pieces in enumerate(answer.texts)]}
        if answer.tells_usage:
            made["usage"] = self.usage(answer.usage)
        return made | {"service_tier": "default", "system_fingerprint": "fp_trial"}

    @staticmethod
    def reason(answer):
        return "stop" if answer.finished else "length"

    def events(self, answer, body):
        told = answer.tells_usage and (body.get("stream_options") or {}).get("include_usage") is True

        def chunk(choices, **more):
            return event({"id": "chatcmpl-trial", "object": "chat.completion.chunk", "created": CREATED,
                          "model": answer.model, "service_tier": "default", "system_fingerprint": "fp_trial",
                          "choices": choices, **({"usage": None} if told else {}), **more})

        for number, pieces in enumerate(answer.texts):
            yield chunk([{"index": number, "delta": {"role": "assistant", "content": "", "refusal": None},
                          "logprobs": None, "finish_reason": None}])
            for piece in pieces:
                yield chunk([{"index": number, "delta": {"content": piece}, "logprobs": None,
                              "finish_reason": None}])
            yield chunk([{"index": number, "delta": {}, "logprobs": None, "finish_reason": self.reason(answer)}])
        if told:
            yield chunk([], usage=self.usage(answer.usage))
        yield b"data: [DONE]\n\n"

    def error(self, status, message):
        kind = {401: "authentication_error", 429: "requests"}.get(
            status, "invalid_request_error" if status < 500 else "server_error")
        code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Completions(OpenAI):
    paths = re.compile(r"^/v1/completions$")
    prompts = ("prompt",)

    def whole(self, answer):
        made = {"id": "cmpl-trial", "object": "text_completion", "created": CREATED, "model": answer.model,
                "choices": [{"text": "".join(pieces), "index": number, "logprobs": None,
                             "finish_reason": self.reason(answer)} for number, pieces in enumerate(answer.texts)]}
        return made | ({"usage": self.usage(answer.usage)} if answer.tells_usage else {})

    def events(self, answer, body):
        told = answer.tells_usage and (body.get("stream_options") or {}).get("include_usage") is True

        def chunk(choices, **more):
            return event({"id": "cmpl-trial", "object": "text_completion", "created": CREATED,
                          "model": answer.model, "choices": choices, **({"usage": None} if told else {}), **more})

        for number, pieces in enumerate(answer.texts):
            for piece in pieces:
                yield chunk([{"text": piece, "index": number, "logprobs": None, "finish_reason": None}])
            yield chunk([{"text": "", "index": number, "logprobs": None, "finish_reason": self.reason(answer)}])
        if told:
            yield chunk([], usage=self.usage(answer.usage))
        yield b"data: [DONE]\n\n"


class Embeddings(OpenAI):
    paths = re.compile(r"^/v1/embeddings$")
    prompts = ("input",)

    def maximum(self, _body):
        return 0

    def whole(self, answer):
        vector = [0.5, -0.25, 0.125]
        shown = [binascii.b2a_base64(struct.pack("<3f", *vector), newline=False).decode(), vector]
        made = {"object": "list", "model": answer.model,
                "data": [{"object": "embedding", "index": 0, "embedding": shown[answer.texts[0] != ["base64"]]}]}
        if answer.tells_usage:
            prompt = answer.usage.input + answer.usage.cached
            made["usage"] = {"prompt_tokens": prompt, "total_tokens": prompt}
        return made


class Responses(OpenAI):
    paths = re.compile(r"^/v1/responses$")
    prompts = ("input", "instructions")

    def maximum(self, body):
        return body.get("max_output_tokens")

    def choices(self, _body):
        return 1

    def usage(self, usage):
        prompt = usage.input + usage.cached + usage.cache_write
        return {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": prompt + usage.output}

    def response(self, answer, status, output, usage):
        return {"id": "resp_trial", "object": "response", "created_at": CREATED, "status": status,
                "error": None,
                "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
                "instructions": None, "max_output_tokens": None, "model": answer.model, "output": output,
                "parallel_tool_calls": True, "previous_response_id": None, "store": False, "temperature": 1.0,
                "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
                "truncation": "disabled", "usage": usage, "user": None, "metadata": {}}

    def item(self, answer, status, text):
        content = [] if text is None else [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
        return {"id": "msg_trial", "type": "message", "status": status, "content": content, "role": "assistant"}

    def end(self, answer):
        status = "completed" if answer.finished else "incomplete"
        text = "".join(answer.texts[0])
        return status, self.response(answer, status, [self.item(answer, status, text)],
                                     self.usage(answer.usage) if answer.tells_usage else None)

    def whole(self, answer):
        return self.end(answer)[1]

    def events(self, answer, _body):
        number = 0

        def one(kind, **more):
            nonlocal number
            number += 1
            return event({"type": kind, "sequence_number": number - 1, **more}, kind)

        place = {"item_id": "msg_trial", "output_index": 0, "content_index": 0}
        text = "".join(answer.texts[0])
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        begun = self.response(answer, "in_progress", [], None)
        yield one("response.created", response=begun)
        yield one("response.in_progress", response=begun)
        yield one("response.output_item.added", output_index=0, item=self.item(answer, "in_progress", None))
        yield one("response.content_part.added", **place, part=part)
        for piece in answer.texts[0]:
            yield one("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield one("response.output_text.done", **place, text=text, logprobs=[])
        yield one("response.content_part.done", **place, part=part | {"text": text})
        status, response = self.end(answer)
        yield one("response.output_item.done", output_index=0, item=response["output"][0])
        yield one(f"response.{status}", response=response)


class Anthropic(Dialect):
    paths = re.compile(r"^/v1/messages$")
    prompts = ("system", "messages")

    def maximum(self, body):
        return body.get("max_tokens")

    def fields(self):
        return [("anthropic-ratelimit-requests-limit", "9999"), ("anthropic-ratelimit-requests-remaining", "9998"),
                ("anthropic-ratelimit-requests-reset", "2031-01-01T00:00:00Z"),
                ("anthropic-ratelimit-tokens-limit", "999999"), ("anthropic-ratelimit-tokens-remaining", "999998"),
                ("anthropic-ratelimit-tokens-reset", "2031-01-01T00:00:00Z"), ("request-id", "req_trial")]

    def usage(self, usage, output):
        return {"input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
                "cache_read_input_tokens": usage.cached, "output_tokens": output, "service_tier": "standard"}

    def message(self, answer, content, reason, usage):
        return {"id": "msg_trial", "type": "message", "role": "assistant", "model": answer.model,
                "content": content, "stop_reason": reason, "stop_sequence": None,
                **({"usage": usage} if answer.tells_usage else {})}

    def whole(self, answer):
        return self.message(answer, [{"type": "text", "text": "".join(answer.texts[0])}], self.reason(answer),
                            self.usage(answer.usage, answer.usage.output))

    @staticmethod
    def reason(answer):
        return "end_turn" if answer.finished else "max_tokens"

    def events(self, answer, _body):
        def one(kind, **more):
            return event({"type": kind, **more}, kind)

        first = min(1, answer.usage.output)
        yield one("message_start", message=self.message(answer, [], None, self.usage(answer.usage, first)))
        yield one("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield one("ping")
        for piece in answer.texts[0]:
            yield one("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield one("content_block_stop", index=0)
        # Each has all of the output until then.
        for number in range(1, answer.message_deltas + 1):
            last = number == answer.message_deltas
            usage = {"output_tokens": answer.usage.output * number // answer.message_deltas}
            yield one("message_delta", delta={"stop_reason": self.reason(answer) if last else None,
                                              "stop_sequence": None},
                      **({"usage": usage} if answer.tells_usage else {}))
        yield one("message_stop")

    def error(self, status, message):
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error",
                529: "overloaded_error"}.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_trial"}


class Gemini(Dialect):
    paths = re.compile(r"^/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)$")
    prompts = ("systemInstruction", "contents")

    def model(self, _body, path):
        return self.paths.match(path)[1]

    def streams(self, _body, path):
        return self.paths.match(path)[2] == "streamGenerateContent"

    def maximum(self, body):
        return body.get("generationConfig", {}).get("maxOutputTokens")

    def choices(self, body):
        return body.get("generationConfig", {}).get("candidateCount") or 1

    def usage(self, usage, output):
        prompt = usage.input + usage.cached + usage.cache_write
        thoughts = min(usage.reasoning, output)
        made = {"promptTokenCount": prompt, "candidatesTokenCount": output - thoughts,
                "totalTokenCount": prompt + output}
        if usage.cached:
            made["cachedContentTokenCount"] = usage.cached
        if thoughts:
            made["thoughtsTokenCount"] = thoughts
        return made

    def part(self, answer, number, text, reason, output):
        candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": number}
        if reason:
            candidate["finishReason"] = reason
        return {"candidates": [candidate],
                **({"usageMetadata": self.usage(answer.usage, output)} if answer.tells_usage else {}),
                "modelVersion": answer.model, "responseId": "trial"}

    @staticmethod
    def reason(answer):
        return "STOP" if answer.finished else "MAX_TOKENS"

    def whole(self, answer):
        made = self.part(answer, 0, "".join(answer.texts[0]), self.reason(answer), answer.usage.output)
        for number, pieces in enumerate(answer.texts[1:], start=1):
            made["candidates"] += self.part(answer, number, "".join(pieces), self.reason(answer), 0)["candidates"]
        return made

    def parts(self, answer):
        """Each says all usage until then; the last one is right."""
        pieces = [(number, piece) for number, choice in enumerate(answer.texts) for piece in choice or [""]]
        for place, (number, piece) in enumerate(pieces, start=1):
            last = place == len(pieces)
            output = answer.usage.output if last else answer.usage.output * place // len(pieces)
            yield self.part(answer, number, piece, self.reason(answer) if last else None, output)

    def events(self, answer, _body):
        for one in self.parts(answer):
            yield event(one).replace(b"\n", b"\r\n")

    def array(self, answer):
        for number, one in enumerate(self.parts(answer)):
            yield ((",\r\n" if number else "[") + json.dumps(one, indent=2)).encode()
        yield b"]"

    def error(self, status, message):
        kind = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
                503: "UNAVAILABLE"}.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": kind}}


class Bedrock(Dialect):
    paths = re.compile(r"^/model/([^/]+)/(converse|converse-stream)$")
    prompts = ("system", "messages")
    stream_type = "application/vnd.amazon.eventstream"

    def model(self, _body, path):
        return urllib.parse.unquote(self.paths.match(path)[1])

    def streams(self, _body, path):
        return self.paths.match(path)[2] == "converse-stream"

    def maximum(self, body):
        return body.get("inferenceConfig", {}).get("maxTokens")

    def usage(self, usage):
        made = {"inputTokens": usage.input, "outputTokens": usage.output,
                "totalTokens": usage.input + usage.cached + usage.cache_write + usage.output}
        if usage.cached or usage.cache_write:
            made |= {"cacheReadInputTokens": usage.cached, "cacheWriteInputTokens": usage.cache_write}
        return made

    @staticmethod
    def reason(answer):
        return "end_turn" if answer.finished else "max_tokens"

    def whole(self, answer):
        return {"output": {"message": {"role": "assistant", "content": [{"text": "".join(answer.texts[0])}]}},
                "stopReason": self.reason(answer), "metrics": {"latencyMs": 42},
                **({"usage": self.usage(answer.usage)} if answer.tells_usage else {})}

    def events(self, answer, _body):
        yield amazon_event("messageStart", {"role": "assistant"})
        for piece in answer.texts[0]:
            yield amazon_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}})
        yield amazon_event("contentBlockStop", {"contentBlockIndex": 0})
        yield amazon_event("messageStop", {"stopReason": self.reason(answer)})
        if answer.tells_usage:
            yield amazon_event("metadata", {"usage": self.usage(answer.usage), "metrics": {"latencyMs": 42}})

    def error(self, _status, message):
        return {"message": message}

    def error_fields(self, status):
        return [("x-amzn-errortype", {400: "ValidationException", 429: "ThrottlingException",
                                      503: "ServiceUnavailableException"}.get(status, "InternalServerException"))]


def amazon_event(kind, value):
    """A message of application/vnd.amazon.eventstream: prelude, headers, payload, each part with its CRC."""
    payload = compact(value | {"p": "abcdefghijk"}).encode()
    headers = b"".join(bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
                       for name, text in ((":event-type", kind), (":content-type", "application/json"),
                                          (":message-type", "event")))
    prelude = struct.pack(">II", 12 + len(headers) + len(payload) + 4, len(headers))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", binascii.crc32(message))


DIALECTS = (OpenAI(), Completions(), Embeddings(), Responses(), Anthropic(), Gemini(), Bedrock())


def dialect_of(path):
    return next((one for one in DIALECTS if one.paths.match(path)), None)
