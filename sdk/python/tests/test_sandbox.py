"""Tests the SDK against the sandbox at STIPEND_URL and a server of its own."""

import os
import threading
import typing
import unittest
from dataclasses import is_dataclass
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import stipend
from stipend import types_gen

BASE, KEY = os.environ["STIPEND_URL"], os.environ["STIPEND_KEY"]


class Server(ThreadingHTTPServer):
    """Answers each request by the next answer, the last one repeatedly, and stores the requests."""

    def __init__(self, test: unittest.TestCase, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.answers, self.received, self.arrived = list(answers), [], threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        test.addCleanup(self.server_close)
        test.addCleanup(self.shutdown)
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.received.append((dict(self.headers.items()), body))
        status, headers, content = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if status:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        server.arrived.set()

    do_GET = do_POST

    def log_message(self, *args: object) -> None:
        pass


class TestSandbox(unittest.TestCase):
    client = stipend.Client(BASE, api_key=KEY)

    def test_pays_a_payroll_and_receives_its_event(self) -> None:
        shop = Server(self, (204, {}, b""))
        hook = self.client.webhooks.create(url=shop.url, events=["payroll.created"])
        workers = [worker.user_id for worker in self.client.workers.all(per_page=1)]
        self.assertGreater(len(workers), 1)

        def pay() -> stipend.PayrollCreated:
            to_pay = [{"user_id": workers[0], "amount_fiat": Decimal("100.10")}]
            return self.client.payrolls.create(currency="USD", to_pay=to_pay, idempotency_key="python")

        payroll = pay()
        self.assertEqual(payroll, pay())
        self.assertEqual(payroll.volume_input_in_input_currency, Decimal("100.1"))
        self.assertIsInstance(payroll.quote.funding_amount, Decimal)
        self.assertEqual(payroll.quote.valid_to.utcoffset().total_seconds(), 0)

        self.assertTrue(shop.arrived.wait(30))
        headers, body = shop.received[0]
        event = stipend.verify_webhook(body, headers, "whsec_b3RoZXI=", hook.secret)
        self.assertIsInstance(event.data, stipend.PayrollData)
        self.assertEqual(event.data.payroll_id, payroll.payroll_id)
        self.assertEqual(event.data.volume_input_in_input_currency, Decimal("100.1"))
        with self.assertRaises(stipend.InvalidSignature):
            stipend.verify_webhook(body + b" ", headers, hook.secret)
        with self.assertRaises(ValueError):
            stipend.verify_webhook(body, headers, "whsec_?")
        listed = list(self.client.events.all(object_id=payroll.payroll_id, limit=1))
        self.assertIn(event, listed)
        self.client.webhooks.delete(hook.webhook_id)

    def test_names_every_problem_of_a_request(self) -> None:
        with self.assertRaises(stipend.Error) as caught:
            self.client.payrolls.create(to_pay=[{"user_id": "usr_1", "amount_fiat": 1}], currency="XXX")
        error = caught.exception
        self.assertEqual(error.code, "currency_not_supported")
        self.assertTrue(error.request_id.startswith("req_"))
        self.assertEqual(error.errors[0].pointer, "/currency")
        self.assertIn(error.request_id, str(error))
        with self.assertRaisesRegex(TypeError, "12.5 is a float"):
            self.client.payrolls.create(to_pay=[{"user_id": "usr_1", "amount_fiat": 12.5}])
        with self.assertRaisesRegex(ValueError, "'12,50' is not an amount"):
            self.client.payrolls.create(to_pay=[{"user_id": "usr_1", "amount_fiat": "12,50"}])

    def test_takes_amounts_as_text(self) -> None:
        claim = self.client.claims.create(
            payer_id="7", amount="012.50", denomination_currency="USD", metadata={"amount": "7"}
        )
        self.assertEqual(claim.denomination_amount, "12.50")
        self.assertEqual(self.client.claims.get_status(claim_id=claim.claim_id).metadata, {"amount": "7"})

    def test_retries_with_the_same_key_and_keeps_every_digit(self) -> None:
        exact = "12345678901234567.123456789012345678"
        answer = b'{"payroll_id":"prl_1","fees":%s,"total_input_in_input_currency":1,"quote":null}' % exact.encode()
        busy = Server(
            self,
            (0, {}, b""),
            (503, {"Retry-After": "0"}, b"{}"),
            (409, {"Retry-After": "0"}, b'{"code":"idempotency_in_progress"}'),
            (200, {}, answer),
        )
        client = stipend.Client(busy.url, access_token=lambda: "token")
        payroll = client.payrolls.create(
            to_pay=[{"user_id": "usr_1", "amount_fiat": Decimal(exact), "description": "1.50"}]
        )
        self.assertEqual(payroll.fees, Decimal(exact))
        self.assertEqual(len(busy.received), 4)
        self.assertEqual(len({headers["Idempotency-Key"] for headers, _ in busy.received}), 1)
        self.assertEqual(busy.received[3][0]["Authorization"], "Bearer token")
        self.assertIn(f'"amount_fiat":{exact},"description":"1.50"', busy.received[3][1].decode())

        proxy = Server(self, (302, {"Location": BASE}, b"<html>"))
        with self.assertRaises(stipend.Error) as caught:
            stipend.Client(proxy.url, api_key=KEY).workers.list()
        self.assertEqual(caught.exception.code, "unexpected_response")
        full = Server(self, (429, {"Retry-After": "0"}, b"{}"))
        with self.assertRaises(stipend.Error):
            stipend.Client(full.url, api_key=KEY, max_attempts=2).workers.list()
        self.assertEqual(len(full.received), 2)

    def test_types_of_responses_exist(self) -> None:
        for name in types_gen.__all__:
            if is_dataclass(getattr(types_gen, name)) and name != "EventItem":
                self.assertTrue(typing.get_type_hints(getattr(types_gen, name)))


if __name__ == "__main__":
    unittest.main()
