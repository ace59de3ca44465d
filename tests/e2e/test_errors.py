"""Refusals: each in the shape of the client's own protocol, with the status that its SDK understands."""

import unittest

import anthropic
import keys
import openai
import wire
from clients import HOLDERS
from harness import CLIENT_KEY, GatewayTest

ASK = [{"role": "user", "content": "x"}]
ROUTES = ("gpt-", "claude-")
# upstream error -> (status, error type) for an Anthropic client, status for an OpenAI client
REFUSALS = {
    "429:7": ((429, "rate_limit_error"), 429),
    "401": ((401, "authentication_error"), 401),
    "403": ((403, "permission_error"), 403),
    "400": ((400, "invalid_request_error"), 400),
    "context": ((400, "invalid_request_error"), 400),
    "404": ((404, "not_found_error"), 404),
    "quota": ((402, "billing_error"), 429),
    "overloaded": ((529, "overloaded_error"), 503),
    "500": ((500, "api_error"), 500),
}


class ErrorShapes(GatewayTest):
    def assert_anthropic_shape(self, answer, status, kind):
        self.assertEqual(status, answer.status, answer)
        self.assertIn("application/json", answer.headers["content-type"])
        body = answer.json()
        self.assertEqual(("error", kind), (body["type"], body["error"]["type"]), body)
        self.assertTrue(body["error"]["message"])

    def assert_openai_shape(self, answer, status):
        self.assertEqual(status, answer.status, answer)
        self.assertIn("application/json", answer.headers["content-type"])
        error = answer.json()["error"]
        self.assertTrue(error["message"] and error["type"], error)
        self.assertEqual([], sorted({"message", "type", "param", "code"} - set(error)), "members that the SDK reads")
        return error


class UpstreamRefuses(ErrorShapes):
    def check(self, protocol, stream):
        for route in ROUTES:
            for word, ((status, kind), openai_status) in REFUSALS.items():
                with self.subTest(f"{route}{word}"):
                    answer = self.ask(protocol, f"{route}sim-{word}", stream)
                    if (route, word) == ("claude-", "quota"):
                        status, kind = 429, "rate_limit_error"  # what the simulated Anthropic itself says to it
                    if protocol == "anthropic-messages":
                        self.assert_anthropic_shape(answer, status, kind)
                    else:
                        self.assert_openai_shape(answer, openai_status)
                    self.assertEqual("7" if word == "429:7" else None, answer.headers.get("retry-after"))
                    self.assertTrue(answer.headers.get("throughline-operation", "").startswith("op_"), "a refused turn is an operation too")
        states = set(self.gateway.journal().operation_states())
        self.assertEqual({"failed"}, states)
        self.assertEqual(len(ROUTES) * len(REFUSALS), len(self.upstream_log()), "retries are off in this configuration")

    def ask(self, protocol, model, stream):
        if not stream:
            return self.gateway.ask(protocol, model, ASK)
        with self.gateway.ask(protocol, model, ASK, stream=True) as answer:
            return wire.Answer(answer.status, answer.headers, answer.read())

    def test_anthropic_client(self):
        self.check("anthropic-messages", stream=False)

    def test_anthropic_client_streamed(self):
        self.check("anthropic-messages", stream=True)

    def test_openai_client(self):
        self.check("openai-chat", stream=False)

    def test_openai_client_streamed(self):
        self.check("openai-chat", stream=True)

    def test_sdks_raise_their_own_exceptions(self):
        for stream in (False, True):
            openai_client, anthropic_client = (HOLDERS[sdk](self.gateway.url, stream) for sdk in ("openai", "anthropic"))
            for route in ROUTES:
                with self.assertRaises(openai.RateLimitError) as caught:
                    openai_client.turn(f"{route}sim-429:7", "x")
                self.assertEqual("7", caught.exception.response.headers["retry-after"])
                with self.assertRaises(openai.AuthenticationError):
                    openai_client.turn(f"{route}sim-401", "x")
                with self.assertRaises(openai.BadRequestError):
                    openai_client.turn(f"{route}sim-400", "x")
                with self.assertRaises(openai.InternalServerError):
                    openai_client.turn(f"{route}sim-overloaded", "x")
                with self.assertRaises(anthropic.RateLimitError) as caught:
                    anthropic_client.turn(f"{route}sim-429:7", "x")
                self.assertEqual("7", caught.exception.response.headers["retry-after"])
                with self.assertRaises(anthropic.AuthenticationError):
                    anthropic_client.turn(f"{route}sim-401", "x")
                with self.assertRaises(anthropic.BadRequestError):
                    anthropic_client.turn(f"{route}sim-400", "x")
                with self.assertRaises(anthropic.InternalServerError):
                    anthropic_client.turn(f"{route}sim-overloaded", "x")

    def test_conversation_goes_on_after_a_refusal(self):
        first = self.gateway.chat("gpt-sim-text", ASK)
        said = first.json()["choices"][0]["message"]["content"]
        history = [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": "y"}]
        self.assertEqual(429, self.gateway.chat("gpt-sim-429:1", history).status)
        again = self.gateway.chat("gpt-sim-text", history)
        self.assertEqual((200, first.headers["throughline-conversation"]), (again.status, again.headers["throughline-conversation"]))
        self.assertEqual(3, self.upstream_log(3)[-1]["digest"]["runs"])


class UpstreamIsRetried(ErrorShapes):
    config_options = {"attempts": 2}

    def test_one_failure_is_not_the_clients_business(self):
        for protocol in ("openai-chat", "anthropic-messages"):
            for stream in (False, True):
                for number, route in enumerate(ROUTES):
                    with self.subTest(f"{protocol} {route} {stream}"):
                        ask = [{"role": "user", "content": f"{protocol} {stream} {number}"}]
                        answer = self.gateway.ask(protocol, f"{route}sim-503+once", ask, stream=stream)
                        self.assertEqual(200, answer.status)
                        if stream:
                            answer.rest()
                            answer.close()
        entries = self.upstream_log(16)
        self.assertEqual({503: 8, 200: 8}, {status: sum(e["status"] == status for e in entries) for status in (503, 200)})


class UpstreamIsNotThere(ErrorShapes):
    def prepare(self):
        text = (self.folder / "throughline.toml").read_text()
        self.gateway.write_config(text.replace(self.sim.url, "http://127.0.0.1:9"))

    def test_nobody_answers(self):
        for route in ROUTES:
            answer = self.gateway.messages(f"{route}sim-text", ASK)
            self.assertGreaterEqual(answer.status, 500, answer)
            self.assert_anthropic_shape(answer, answer.status, "api_error")
            answer = self.gateway.chat(f"{route}sim-text", ASK)
            self.assertGreaterEqual(answer.status, 500, answer)
            self.assert_openai_shape(answer, answer.status)


class GatewayRefuses(ErrorShapes):
    def test_unknown_model(self):
        for stream in (False, True):
            fields = {"model": "nobody-knows", "messages": ASK, "stream": stream}
            self.assert_anthropic_shape(self.gateway.post("/v1/messages", {**fields, "max_tokens": 5}, anthropic_version="2023-06-01"), 404, "not_found_error")
            self.assert_openai_shape(self.gateway.post("/v1/chat/completions", fields), 404)

    def test_openai_error_codes_are_openais_words(self):
        """Programs look at `code`; the gateway's own code is no help to them."""
        for model, code in (
            ("nobody-knows", "model_not_found"),
            ("claude-sim-429", "rate_limit_exceeded"),
            ("gpt-sim-429", "rate_limit_exceeded"),
            ("gpt-sim-quota", "insufficient_quota"),
            ("gpt-sim-context", "context_length_exceeded"),
            ("gpt-sim-401", "invalid_api_key"),
        ):
            with self.subTest(model):
                self.assertEqual(code, self.gateway.chat(model, ASK).json()["error"]["code"])

    def test_bad_bodies(self):
        deep = b'{"model":"gpt-sim-text","max_tokens":5,"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        for name, body in (
            ("no JSON", b"{not json"),
            ("half a body", b'{"model":"gpt-sim-text","messages":['),
            ("not an object", b"[]"),
            ("nothing", b""),
            ("no model", {"messages": ASK, "max_tokens": 5}),
            ("no messages", {"model": "gpt-sim-text", "max_tokens": 5}),
            ("wrong type", {"model": "gpt-sim-text", "max_tokens": 5, "messages": 3}),
            ("unknown role", {"model": "gpt-sim-text", "max_tokens": 5, "messages": [{"role": "nobody", "content": "x"}]}),
            ("too deep", deep),
            ("twice", b'{"model":"gpt-sim-text","model":"claude-sim-text","max_tokens":5,"messages":[{"role":"user","content":"x"}]}'),
            ("no UTF-8", b'{"model":"gpt-sim-text","max_tokens":5,"messages":[{"role":"user","content":"\xff"}]}'),
        ):
            with self.subTest(name):
                self.assert_anthropic_shape(self.gateway.post("/v1/messages", body, anthropic_version="2023-06-01"), 400, "invalid_request_error")
                self.assert_openai_shape(self.gateway.post("/v1/chat/completions", body), 400)
        self.assertEqual([], self.upstream_log(), "nothing of it went upstream")
        self.assertEqual([], self.gateway.journal().conversations(), "and nothing was kept")

    def test_too_large(self):
        body = b'{"model":"gpt-sim-text","max_tokens":5,"messages":[{"role":"user","content":"' + b"x" * (33 << 20) + b'"}]}'
        self.assert_anthropic_shape(self.gateway.post("/v1/messages", body), 413, "request_too_large")
        self.assert_openai_shape(self.gateway.post("/v1/chat/completions", body), 413)

    def test_unknown_conversation(self):
        for name in ("conv_0123456789abcdefghjkmnpqrs", "conv_nobody"):
            named = {"throughline-conversation": name}
            self.assert_anthropic_shape(self.gateway.messages("gpt-sim-text", ASK, headers=named), 404, "not_found_error")
            self.assert_openai_shape(self.gateway.chat("gpt-sim-text", ASK, headers=named), 404)

    def test_unknown_path_and_method(self):
        self.assert_openai_shape(self.gateway.post("/v1/nothing", {}), 404)
        answer = self.gateway.get("/unified/v2/nothing")
        self.assertEqual((404, "not-found"), (answer.status, answer.json()["error"]["category"]))
        self.assertEqual(405, self.gateway.get("/v1/messages").status)

    def test_foreign_host_and_origin(self):
        answer = self.gateway.get("/v1/models", Host="evil.example.com")
        self.assertEqual(400, answer.status, answer)
        answer = self.gateway.get("/v1/models", Origin="https://evil.example.com")
        self.assertEqual(403, answer.status, answer)

    def test_required_feature_that_the_target_lacks(self):
        """A wish that the client calls required is refused before anything goes upstream."""
        headers = {"throughline-require": "generation.seed"}
        answer = self.gateway.chat("claude-sim-text", ASK, headers=headers, seed=7)
        error = self.assert_openai_shape(answer, answer.status)
        self.assertIn(answer.status, (400, 422), error)
        self.assertEqual("unsupported", answer.headers["throughline-loss"])
        self.assertEqual([], self.upstream_log())
        answer = self.gateway.chat("claude-sim-text", ASK, seed=7)
        self.assertEqual((200, "degraded"), (answer.status, answer.headers["throughline-loss"]))


class KeyRequired(ErrorShapes):
    config_options = {"auth": True}

    def prepare(self):
        self.key = keys.new_client_key(self.gateway, "somebody")

    def test_missing_and_wrong_keys(self):
        for headers in ({}, {"authorization": "Bearer tlk_wrong"}, {"x-api-key": CLIENT_KEY}, {"authorization": "Basic abc"}):
            with self.subTest(str(headers)):
                self.assert_anthropic_shape(self.gateway.messages("gpt-sim-text", ASK, headers=headers), 401, "authentication_error")
                self.assert_openai_shape(self.gateway.chat("gpt-sim-text", ASK, headers=headers), 401)
                self.assertEqual(401, self.gateway.get("/v1/models", **headers).status)
                answer = self.gateway.get("/unified/v2/operations/op_1", **headers)
                self.assertEqual((401, "auth"), (answer.status, answer.json()["error"]["category"]))
        self.assertEqual(200, self.gateway.get("/healthz").status, "health needs no key")
        self.assertEqual([], self.upstream_log())

    def test_right_key_in_every_place(self):
        bearer, own = {"authorization": f"Bearer {self.key}"}, {"x-api-key": self.key}
        for headers in (bearer, own):
            self.assertEqual(200, self.gateway.messages("gpt-sim-text", ASK, headers=headers).status)
        answer = self.gateway.chat("claude-sim-text", ASK, headers=bearer)
        self.assertEqual(200, answer.status)
        operation = answer.headers["throughline-operation"]
        self.assertEqual(200, self.gateway.get(f"/unified/v2/operations/{operation}", **bearer).status)
        for path in self.gateway.data_dir.rglob("*"):
            if path.is_file():
                self.assertNotIn(self.key.encode(), path.read_bytes(), path)
        self.assertNotIn(self.key, self.gateway.stderr_path().read_text())


if __name__ == "__main__":
    unittest.main()
