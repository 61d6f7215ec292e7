import t from "tap";
import { BufferMemory, UNCOUNTED_BYTES } from "../../src/core/buffer-memory.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { BufferedResponse } from "../../src/upstream/buffered-response.ts";
import type { BodyReceiver, UpstreamResponse } from "../../src/upstream/response.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { countTurns } from "../support/turns.ts";
import { rawUpstream } from "../support/upstream.ts";

/** An upstream that does what it is told. */
function upstream() {
  const seen = { resumed: 0, destroyed: 0 };
  let receiver: BodyReceiver | undefined;
  const made = {
    status: 200,
    headers: new HeaderList(),
    read(given: BodyReceiver) {
      receiver = given;
    },
    peek: () => {},
    resume: () => void seen.resumed++,
    destroy: () => void seen.destroyed++,
  } as UpstreamResponse;
  const held = new BufferedResponse(made, { status: 200, headers: new HeaderList(), framing: undefined });
  return {
    held,
    made,
    whole: held.head.readBody as (limit: number) => Promise<Buffer>,
    seen,
    receiver: () => receiver as BodyReceiver,
  };
}

function recorder(room = true) {
  const got: string[] = [];
  const receiver: BodyReceiver = {
    chunk: (bytes) => {
      got.push(bytes.toString());
      return room;
    },
    end: () => void got.push("end"),
    fail: (error) => void got.push(error.code),
  };
  return { got, receiver };
}

t.test("an answer that no plugin reads as a whole passes as it arrives", async (t) => {
  const { held, receiver, seen } = upstream();
  const { got, receiver: mine } = recorder();
  held.read(mine);
  t.equal(receiver(), mine);
  held.resume();
  held.destroy();
  t.same([got, seen], [[], { resumed: 1, destroyed: 1 }]);
});

t.test("an answer read to its end is passed on afterwards, once, then its end", async (t) => {
  const { held, whole: read, receiver } = upstream();
  const whole = read(100);
  receiver().chunk(Buffer.from("one "));
  receiver().chunk(Buffer.from("two"));
  receiver().end();
  t.equal((await whole).toString(), "one two");
  const { got, receiver: mine } = recorder();
  held.read(mine);
  t.same(got, ["one two", "end"]);
});

t.test("an empty answer has only an end", async (t) => {
  const { held, whole: read, receiver } = upstream();
  const whole = read(100);
  receiver().end();
  t.equal((await whole).length, 0);
  const { got, receiver: mine } = recorder();
  held.read(mine);
  t.same(got, ["end"]);
});

t.test("a client without buffer space receives the end when it has some", async (t) => {
  const { held, whole: read, receiver } = upstream();
  const whole = read(100);
  receiver().chunk(Buffer.from("one"));
  receiver().end();
  await whole;
  const { got, receiver: mine } = recorder(false);
  held.read(mine);
  t.same(got, ["one"]);
  held.resume();
  t.same(got, ["one", "end"]);
  held.resume();
  t.equal(got.length, 2);
});

t.test("an aborted one receives nothing", async (t) => {
  const { held, whole: read, receiver, seen } = upstream();
  const whole = read(100);
  receiver().chunk(Buffer.from("one"));
  receiver().end();
  await whole;
  const { got, receiver: mine } = recorder(false);
  held.read(mine);
  held.destroy();
  held.resume();
  t.same([got, seen.destroyed], [["one"], 1]);
});

t.test("an answer that is interrupted fails with its reason; one that is too large is aborted", async (t) => {
  const broken = upstream();
  const whole = broken.whole(100);
  broken.receiver().fail(new GatewayError("upstream_truncated"));
  await t.rejects(whole, { code: "upstream_truncated" });
  const large = upstream();
  const much = large.whole(3);
  t.notOk(large.receiver().chunk(Buffer.from("four")));
  await t.rejects(much, { code: "upstream_invalid", message: /over 3 bytes/ });
  t.equal(large.seen.destroyed, 1);
});

t.test(
  "where a plugin goes on with an answer that it could not read whole, the client's ends with the reason",
  async (t) => {
    const { held, whole, receiver } = upstream();
    const much = whole(3);
    receiver().chunk(Buffer.from("four"));
    await t.rejects(much);
    const { got, receiver: mine } = recorder();
    held.read(mine);
    t.same(got, ["upstream_invalid"]);
  },
);

t.test("a reader of what another one has read has its own limit, and the answer stays whole", async (t) => {
  const { held, whole, receiver } = upstream();
  const first = whole(100);
  receiver().chunk(Buffer.from("four"));
  receiver().end();
  await first;
  await t.rejects(whole(3), { code: "upstream_invalid", message: /over 3 bytes/ });
  t.equal((await whole(4)).toString(), "four");
  const { got, receiver: mine } = recorder();
  held.read(mine);
  t.same(got, ["four", "end"]);
});

t.test("all readers of the whole answer get the same, and the head shows that there is one", async (t) => {
  const { held, whole, receiver } = upstream();
  t.notOk(held.head.isReading);
  const [first, second] = [whole(100), whole(100)];
  t.equal(held.head.isReading, true);
  receiver().chunk(Buffer.from("one"));
  receiver().end();
  t.equal(await first, await second);
  t.equal(held.head.isReading, false);
  t.equal((await whole(100)).toString(), "one");
});

t.test("what is buffered counts until its delivery; where there is no room, the response is given up", async (t) => {
  const memory = new BufferMemory();
  const limits = { perCaller: 100, total: 150 };
  const { seen, made, receiver } = upstream();
  let opened = 0;
  class Counted extends BufferedResponse {
    protected override openMemory() {
      opened++;
      return memory.account("a", limits);
    }
  }
  const counted = new Counted(made, { status: 200, headers: new HeaderList(), framing: undefined });
  t.equal(opened, 0, "a response that is not buffered has no account");
  const whole = counted.head.readBody?.(1e6);
  receiver().chunk(Buffer.alloc(UNCOUNTED_BYTES + 100));
  t.equal(memory.size, 100);
  receiver().chunk(Buffer.alloc(1));
  await t.rejects(whole as Promise<Buffer>, { code: "overloaded", status: 503 });
  t.equal(seen.destroyed, 1);
  t.throws(() => counted.head.reserve?.(1), { code: "overloaded" }, "of streams too");
  t.equal(opened, 1);
  let deliver = () => {};
  counted.release({ afterDelivery: (run) => (deliver = run) });
  t.equal(memory.size, 100, "the client has not read it");
  deliver();
  t.equal(memory.size, 0);
});

t.test("the pieces of a large answer are joined in many turns of the event loop, and then passed on", async (t) => {
  const { held, whole: read, receiver } = upstream();
  const whole = read(1e9);
  const pieces = Array.from({ length: 12 }, (_, i) => Buffer.alloc(1 << 20, String(i)));
  for (const piece of pieces) receiver().chunk(piece);
  receiver().end();
  const turns = await countTurns(t, () => whole);
  t.ok(Buffer.concat(pieces).equals(await whole));
  t.ok(turns >= 10, `${turns} turns`);
  const { got, receiver: mine } = recorder();
  held.read(mine);
  t.same([got[0]?.length, got[1]], [12 << 20, "end"]);
});

t.test("a plugin may await an answer later than it breaks off, and not hand it on before it is whole", async (t) => {
  const start = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"choices":';
  const upstream = await rawUpstream((socket, { head }) => {
    socket.write(start);
    setTimeout(() => (head.includes("/whole/") ? socket.write("[]}") : socket.destroy()), 20);
  });
  t.teardown(() => upstream.close());
  const provider = (name: string) => `  ${name}: { url: "${upstream.origin.origin}/${name}", protocol: openai-chat }`;
  const models = ["cut", "whole"].map((name) => `  ${name}: { targets: [${name}:x] }`);
  const { url, log } = await startGateway(
    t,
    `providers:\n${provider("cut")}\n${provider("whole")}\nmodels:\n${models.join("\n")}\nretry: { first_frame: off }
chains: { llm: [auth, models, read] }\nplugins: { read: { from: ./read.ts } }\n`,
    {
      "read.ts": `export default class Read {
        async response(exchange, head) {
          const body = head.readBody(1e6);
          if (exchange.model.id === "whole") return;
          await new Promise((done) => setTimeout(done, 60));
          await body;
        }
      }\n`,
    },
  );
  const ask = async (model: string) => {
    const body = JSON.stringify({ model, messages: [] });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code];
  };
  // A rejection that nobody handles would end the process, and with it this test.
  t.same(await ask("cut"), [502, "upstream_truncated"]);
  t.same(await ask("whole"), [500, "plugin_failed"]);
  t.match(JSON.stringify(log.lines), /The phase has ended before readBody has: await it\./);
});
