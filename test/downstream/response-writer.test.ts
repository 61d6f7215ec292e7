import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { mock } from "node:test";
import t, { type Test } from "tap";
import { ResponseWriter, STALL_TIMEOUT } from "../../src/downstream/response-writer.ts";
import { until } from "../support/until.ts";

const ASK = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const KEEP = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const OLD = "GET / HTTP/1.0\r\n\r\n";
const LARGE = 40_000;

/** A client's connection to a server whose answers `act` writes; `whole` is every byte until the connection closed. */
async function talk(t: Test, act: (output: ResponseWriter, nth: number) => unknown, bytes = ASK) {
  let nth = 0;
  const server = createServer({ noDelay: true }, (_request, response) => act(new ResponseWriter(response), ++nth));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1", () => socket.write(bytes));
  t.teardown(() => {
    socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  const pieces: Buffer[] = [];
  const whole = new Promise<Buffer>((resolve) => {
    socket.on("data", (piece: Buffer) => pieces.push(piece));
    socket.on("error", () => {});
    socket.on("close", () => resolve(Buffer.concat(pieces)));
  });
  return { socket, server, whole, soFar: () => Buffer.concat(pieces) };
}

/** The chunks of a body as they are framed, and whether the last one, of no bytes, ends it. */
function chunks(answer: Buffer): { sizes: number[]; body: Buffer; ended: boolean } {
  const read: Buffer[] = [];
  for (let at = answer.indexOf("\r\n\r\n") + 4; at < answer.length; ) {
    const line = answer.indexOf("\r\n", at);
    const size = Number.parseInt(answer.toString("latin1", at, line), 16);
    if (size === 0) return { ...seen(read), ended: answer.toString("latin1", at) === "0\r\n\r\n" };
    read.push(answer.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
    if (answer.toString("latin1", at - 2, at) !== "\r\n") throw new Error(`no line end behind ${size} bytes`);
  }
  return { ...seen(read), ended: false };
}

const seen = (read: readonly Buffer[]) => ({ sizes: read.map(({ length }) => length), body: Buffer.concat(read) });
const bodyOf = (answer: Buffer): Buffer => answer.subarray(answer.indexOf("\r\n\r\n") + 4);

/** Bytes of every value, so that nothing that is text only survives. */
const bytes = (length: number, from = 0): Buffer => Buffer.from(Array.from({ length }, (_, i) => (from + i * 7) & 255));

/** Writes that reach the system, counted from now on. */
function countWrites(socket: Socket): () => number {
  let count = 0;
  const { _write, _writev } = socket;
  socket._write = (...all) => {
    count++;
    _write.apply(socket, all);
  };
  socket._writev = (...all) => {
    count++;
    _writev?.apply(socket, all);
  };
  return () => count;
}

const WRITES: Record<string, Buffer[][]> = {
  "one byte": [[bytes(1)]],
  "small pieces": [[bytes(10), bytes(300, 3)], [bytes(15, 9)], [bytes(1, 1), bytes(1, 2), bytes(1, 3)]],
  "just below where pieces are no longer copied": [[bytes(16 * 1024 - 1)]],
  "just where pieces are no longer copied": [[bytes(16 * 1024)], [bytes(16 * 1024 - 2), bytes(2)]],
  "large pieces": [[bytes(LARGE), bytes(LARGE, 5)], [bytes(200_000, 1)]],
  "small between large ones": [[bytes(20)], [bytes(LARGE, 2), bytes(3, 4)], [bytes(7, 8)], [bytes(1), bytes(LARGE, 9)]],
  "pieces of no bytes": [[bytes(0)], [bytes(0), bytes(5), bytes(0)], [], [bytes(4, 7)]],
};

for (const [name, writes] of Object.entries(WRITES)) {
  const body = Buffer.concat(writes.flat());
  const sizes = writes.map((pieces) => Buffer.concat(pieces).length).filter((size) => size > 0);
  const stream = (output: ResponseWriter) => {
    output.head(200, ["content-type", "text/event-stream"], true);
    for (const pieces of writes) output.write(pieces);
    output.end();
  };

  t.test(`streamed: ${name} arrive unchanged, those of one write as one chunk`, async (t) => {
    const { whole } = await talk(t, stream);
    const answer = await whole;
    t.match(answer.toString("latin1"), /^HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream\r\n/);
    t.match(answer.toString("latin1", 0, answer.indexOf("\r\n\r\n") + 2), /\r\ntransfer-encoding: chunked\r\n/i);
    const got = chunks(answer);
    t.same(got.sizes, sizes);
    t.ok(got.body.equals(body));
    t.ok(got.ended);
  });

  t.test(`streamed over HTTP/1.0: ${name} arrive unchanged, without framing, and the close ends them`, async (t) => {
    const { whole } = await talk(t, stream, OLD);
    const answer = await whole;
    t.notMatch(answer.toString("latin1"), /transfer-encoding/i);
    t.ok(bodyOf(answer).equals(body));
  });

  t.test(`whole: ${name} arrive unchanged, without framing`, async (t) => {
    const { whole } = await talk(t, (output) => {
      output.head(200, ["content-length", String(body.length)], false);
      for (const pieces of writes) output.write(pieces);
      output.end();
    });
    const answer = await whole;
    t.notMatch(answer.toString("latin1"), /transfer-encoding/i);
    t.ok(bodyOf(answer).equals(body));
  });
}

t.test("a stream's head is sent before its first byte", async (t) => {
  let open: ResponseWriter | undefined;
  const { whole, soFar } = await talk(t, (output) => {
    open = output;
    output.head(200, ["x-a", "b"], true);
  });
  await until(() => soFar().includes("\r\n\r\n"), "the head");
  t.match(soFar().toString("latin1"), /^HTTP\/1\.1 200 OK\r\nx-a: b\r\n/);
  open?.end();
  t.same(chunks(await whole), { sizes: [], body: Buffer.alloc(0), ended: true });
});

t.test("what is streamed at once is one write to the system, small or large", async (t) => {
  let counted: number[] = [];
  const { whole } = await talk(t, async (output) => {
    output.head(200, [], true);
    const { socket } = output.response;
    if (!socket) throw new Error("no socket");
    const drained = () => new Promise<void>((done) => setImmediate(() => socket.write("", () => done())));
    await drained();
    const count = countWrites(socket);
    const after = (pieces: Buffer[]) => {
      const before = count();
      output.write(pieces);
      return drained().then(() => count() - before - 1);
    };
    counted = [await after([bytes(10), bytes(20)]), await after([bytes(LARGE), bytes(LARGE)])];
    output.end();
  });
  t.same(chunks(await whole).sizes, [30, 2 * LARGE]);
  t.same(counted, [1, 1]);
});

t.test("head and body of a small complete response are sent in one write", async (t) => {
  let count = () => 0;
  const { whole } = await talk(t, (output) => {
    if (output.response.socket) count = countWrites(output.response.socket);
    output.head(200, ["content-length", "5"], false);
    output.write([Buffer.from("whole")]);
    setImmediate(() => output.end());
  });
  t.match((await whole).toString(), /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\nwhole$/);
  t.equal(count(), 1);
});

t.test("the head of a stream is sent together with its first chunk", async (t) => {
  let count = () => -1;
  let counted = -1;
  const { whole } = await talk(t, (output) => {
    if (output.response.socket) count = countWrites(output.response.socket);
    output.head(200, ["content-type", "text/event-stream"], true);
    output.write([Buffer.from("first")]);
    setImmediate(() => {
      counted = count();
      output.end();
    });
  });
  t.same(chunks(await whole).body.toString(), "first");
  t.equal(counted, 1);
});

t.test("the head of a stream without a chunk is not delayed", async (t) => {
  let ended = () => {};
  const { whole, soFar } = await talk(t, (output) => {
    output.head(200, ["content-type", "text/event-stream"], true);
    ended = () => output.end();
  });
  await until(() => soFar().includes("\r\n\r\n"));
  t.match(soFar().toString(), /^HTTP\/1\.1 200 OK\r\n/);
  ended();
  t.ok(chunks(await whole).ended);
});

t.test("a stream after an earlier response that is still open waits for it, and is framed as any other", async (t) => {
  const [first, second] = [WRITES["small between large ones"], WRITES["small pieces"]] as [Buffer[][], Buffer[][]];
  let earlier: ResponseWriter | undefined;
  let answered = 0;
  const { whole, soFar } = await talk(
    t,
    (output, nth) => {
      answered++;
      output.head(200, ["x-nth", String(nth)], true);
      for (const pieces of nth === 1 ? first : second) output.write(pieces);
      if (nth === 1) earlier = output;
      else {
        t.equal(output.response.socket, null, "it has no socket yet");
        output.end();
      }
    },
    KEEP + ASK,
  );
  await until(() => answered === 2, "the second request");
  t.notOk(soFar().includes("x-nth: 2"));
  earlier?.end();
  const answers = await whole;
  const cut = answers.indexOf("HTTP/1.1 200 OK", 1);
  const [one, two] = [chunks(answers.subarray(0, cut)), chunks(answers.subarray(cut))];
  t.ok(one.ended && one.body.equals(Buffer.concat(first.flat())));
  t.ok(two.ended && two.body.equals(Buffer.concat(second.flat())));
});

t.test("a stream that has ended makes its connection available for the next request", async (t) => {
  const { whole } = await talk(
    t,
    (output, nth) => {
      output.head(200, [], true);
      output.write([Buffer.from(`answer ${nth}`)]);
      setImmediate(() => output.end());
    },
    KEEP + KEEP + ASK,
  );
  const bodies = (await whole).toString().match(/\r\n\r\n8\r\nanswer \d\r\n0\r\n/g);
  t.same(
    bodies?.map((body) => body.slice(7, 15)),
    ["answer 1", "answer 2", "answer 3"],
  );
});

t.test("cut() delivers what was written, then closes without the last chunk", async (t) => {
  for (const writes of Object.values(WRITES)) {
    const { whole } = await talk(t, (output) => {
      output.head(200, [], true);
      for (const pieces of writes) output.write(pieces);
      output.abort();
    });
    const { body, ended } = chunks(await whole);
    t.ok(body.equals(Buffer.concat(writes.flat())));
    t.notOk(ended);
  }
});

t.test("after an event with an error the client can read it before its connection ends", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.teardown(() => mock.timers.reset());
  const { socket, whole, soFar } = await talk(t, (output) => {
    output.head(200, [], true);
    output.write([bytes(100)]);
    output.abortAfterError();
  });
  while (chunks(soFar()).body.length < 100) await once(socket, "data");
  for (let i = 0; i < 9; i++) await new Promise((next) => setImmediate(next));
  t.notOk(socket.readableEnded);
  mock.timers.tick(200);
  const { body, ended } = chunks(await whole);
  t.ok(body.equals(bytes(100)));
  t.notOk(ended);
});

for (const [name, lines, request] of [
  ["of known length", ["content-length", "100"], ASK],
  ["of unknown length", [], ASK],
  ["over HTTP/1.0", [], OLD],
] as const) {
  t.test(`cut() of a whole response ${name} delivers the chunk that was held back, then closes`, async (t) => {
    for (const pieces of [[bytes(10)], [bytes(10), bytes(20, 3)]]) {
      const { whole } = await talk(
        t,
        (output) => {
          output.head(200, [...lines], false);
          for (const piece of pieces) output.write([piece]);
          output.abort();
        },
        request,
      );
      const answer = await whole;
      const framed = /transfer-encoding/i.test(answer.toString("latin1"));
      const { body, ended } = framed ? chunks(answer) : { body: bodyOf(answer), ended: false };
      t.ok(body.equals(Buffer.concat(pieces)));
      t.notOk(ended);
    }
  });
}

for (const [name, lines, request, code] of [
  ["of unknown length", [], ASK, undefined],
  ["of known length over HTTP/1.0", ["content-length", "99"], OLD, undefined],
  ["of unknown length over HTTP/1.0", [], OLD, "ECONNRESET"],
] as const)
  t.test(`no way to cut a whole response ${name} looks like its end`, async (t) => {
    for (const way of ["abort", "abortAfterError"] as const) {
      const { socket, soFar } = await talk(
        t,
        (output) => {
          output.head(200, [...lines], false);
          for (const piece of [bytes(10), bytes(20, 3)]) output.write([piece]);
          output[way]();
        },
        request,
      );
      const failed = new Promise<string | undefined>((resolve) => {
        socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code)).on("end", () => resolve(undefined));
      });
      t.equal(await failed, code, way);
      t.ok(soFar().includes(bytes(20, 3)), "all that was written has arrived");
    }
  });

for (const [name, request, code] of [
  ["", ASK, undefined],
  [" over HTTP/1.0", OLD, "ECONNRESET"],
] as const)
  t.test(
    `a client that does not read the rest of a response${name} is disconnected, and sees that it lacks it`,
    async (t) => {
      for (const way of ["abort", "abortAfterError", "end", "drop"] as const) {
        let closed = false;
        const act = ({ response }: ResponseWriter) => {
          const output = new ResponseWriter(response, undefined, undefined, 100);
          response.once("close", () => (closed = true));
          output.head(200, [], true);
          output.write([bytes(16 << 20)]);
          output[way]();
        };
        const { socket, soFar } = await talk(t, act, request);
        socket.pause();
        await until(() => closed, `${way}: the end of the connection`);
        const failed = new Promise<string | undefined>((resolve) => {
          socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code)).on("end", () => resolve(undefined));
        });
        socket.resume();
        t.equal(await failed, code, way);
        t.ok(soFar().length < 16 << 20, way);
      }
    },
  );

for (const way of ["abort", "drop"] as const) {
  t.test(`${way}() after an earlier response leaves that one complete, and closes when it has ended`, async (t) => {
    let earlier: ResponseWriter | undefined;
    let over = false;
    const { whole } = await talk(
      t,
      (output, nth) => {
        output.head(200, [], true);
        output.write([bytes(100, nth)]);
        if (nth === 1) earlier = output;
        else {
          output[way]();
          over = true;
        }
      },
      KEEP + KEEP,
    );
    await until(() => over, "the second request");
    earlier?.end();
    const answers = await whole;
    const next = answers.indexOf("HTTP/1.1 200 OK", 1);
    const [one, two] = [chunks(answers.subarray(0, next)), chunks(answers.subarray(next))];
    t.ok(one.ended && one.body.equals(bytes(100, 1)));
    t.ok(!two.ended && two.body.equals(bytes(100, 2)));
  });
}

t.test("drop() closes a connection whose client reads nothing", async (t) => {
  let closed = false;
  const { socket } = await talk(t, (output) => {
    output.head(200, [], true);
    while (output.write([bytes(LARGE)]));
    output.response.once("close", () => (closed = true));
    output.drop();
  });
  socket.pause();
  await until(() => closed, "the connection to be closed");
  t.ok(closed);
});

for (const [name, request, length] of [
  ["streamed", ASK, undefined],
  ["streamed over HTTP/1.0", OLD, undefined],
  ["whole", ASK, 64 << 20],
] as const) {
  t.test(`${name}: write reports a client that does not read, and drained reports when it has read`, async (t) => {
    const piece = bytes(64 * 1024);
    let written = 0;
    let drained = 0;
    const { socket, whole } = await talk(
      t,
      (output) => {
        output.head(200, length === undefined ? [] : ["content-length", String(length)], length === undefined);
        const fill = () => {
          while (written < 64 << 20) {
            written += piece.length;
            if (output.write([piece])) continue;
            const drain = () => {
              drained++;
              fill();
            };
            output.awaitDrain(drain, () => t.fail("it has read"));
            return;
          }
          output.end();
        };
        fill();
      },
      request,
    );
    socket.pause();
    let before = -1;
    while (written !== before) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    t.ok(written < 32 << 20, `${written} bytes were written while the client did not read`);
    const held = drained;
    socket.resume();
    const answer = await whole;
    t.ok(drained > held);
    const body = request === ASK && length === undefined ? chunks(answer) : { body: bodyOf(answer), ended: true };
    t.equal(body.body.length, 64 << 20);
    t.ok(body.ended);
  });
}

for (const [name, request] of [
  ["streamed", ASK],
  ["streamed over HTTP/1.0", OLD],
] as const)
  t.test(
    `${name}: a client that reads nothing is given up, and one that reads a large piece slowly is not`,
    async (t) => {
      const piece = Buffer.alloc(64 << 20);
      const stalled = 500;
      const seen: string[] = [];
      const { socket } = await talk(
        t,
        ({ response }) => {
          const output = new ResponseWriter(response, undefined, undefined, stalled);
          output.head(200, [], true);
          const wait = () =>
            output.awaitDrain(
              () => seen.push("drained"),
              () => seen.push("stalled"),
            );
          t.notOk(output.write([piece]));
          wait()();
          wait();
        },
        request,
      );
      // Each time enough for the system to take more of the piece.
      let wanted = 0;
      const reading = setInterval(() => {
        wanted = 1 << 20;
        socket.resume();
      }, 50);
      t.teardown(() => clearInterval(reading));
      let received = 0;
      const began = performance.now();
      socket.on("data", ({ length }) => {
        received += length;
        wanted -= length;
        if (wanted <= 0) socket.pause();
      });
      await new Promise((resolve) => setTimeout(resolve, 3 * stalled));
      t.same(seen, [], `it has read ${received} bytes in ${performance.now() - began} ms`);
      clearInterval(reading);
      socket.pause();
      await until(() => seen.length > 0, "the end of the wait");
      t.same(seen, ["stalled"]);
      await new Promise((resolve) => setTimeout(resolve, 2 * stalled));
      t.same(seen, ["stalled"], "once");
    },
  );

t.test("nothing is written to a closed connection", async (t) => {
  let more: boolean | undefined;
  const { socket } = await talk(t, (output) => {
    output.head(200, [], true);
    output.response.once("close", () => {
      more = output.write([bytes(10)]);
    });
  });
  await once(socket, "data");
  socket.destroy();
  await until(() => more !== undefined, "the server to notice");
  t.equal(more, false);
});

t.test("a server that stops lets a slow client read all of a response that has ended", async (t) => {
  // More than the system takes for a reader that waits.
  const body = Buffer.alloc(24_000_000, bytes(251));
  for (const streaming of [false, true]) {
    let ended = false;
    let theirs: Socket | null = null;
    const act = (output: ResponseWriter) => {
      theirs = output.response.socket;
      output.head(200, streaming ? [] : ["content-length", String(body.length)], streaming);
      output.write([body]);
      output.end();
      ended = true;
    };
    const { socket, server, whole } = await talk(t, act, KEEP);
    socket.pause();
    await until(() => ended);
    await until(() => theirs?.timeout === STALL_TIMEOUT);
    server.close();
    server.closeIdleConnections();
    const idle = setInterval(() => server.closeIdleConnections(), 20);
    await new Promise((more) => setTimeout(more, 100));
    socket.resume();
    const answer = await whole;
    clearInterval(idle);
    t.ok((streaming ? chunks(answer).body : bodyOf(answer)).equals(body), streaming ? "streamed" : "whole");
    if (streaming) t.ok(chunks(answer).ended);
  }
});

t.test("a callback runs before the last bytes of a response are sent, however it ends", async (t) => {
  const gone: string[] = [];
  const told = (response: ServerResponse) => () => {
    gone.push(`told at ${response.socket?.bytesWritten}`);
  };
  const ways: [string, (writer: ResponseWriter) => void][] = [
    ["end", (writer) => writer.end()],
    [
      "conclude",
      (writer) =>
        writer.deferEnd(() => {
          writer.write([Buffer.from("last")]);
          writer.abort();
        }),
    ],
  ];
  for (const [name, way] of ways) {
    let before = 0;
    const { whole } = await talk(t, ({ response }) => {
      const writer = new ResponseWriter(response, told(response));
      writer.head(200, ["transfer-encoding", "chunked"], true);
      before = response.socket?.bytesWritten ?? 0;
      way(writer);
      queueMicrotask(() => gone.push("recorded"));
    });
    await whole;
    t.same(gone.splice(0), ["recorded", `told at ${before}`], name);
  }
});

t.test(
  "a deferred write that throws closes only its own connection, is reported, and the rest of its batch is sent",
  async (t) => {
    const waiting: (() => void)[] = [];
    const told: unknown[] = [];
    const server = createServer((request, response) => {
      const writer = new ResponseWriter(response, () => {}, { onFault: (thrown) => void told.push(thrown) });
      waiting.push(() =>
        request.url === "/bad"
          ? writer.deferEnd(() => response.writeHead(0))
          : writer.deferEnd(() => response.writeHead(204).end()),
      );
      // All end in one turn, and so in one batch; the bad one is not the last.
      if (waiting.length === 3) for (const end of waiting) end();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.teardown(() => server.close());
    const { port } = server.address() as AddressInfo;
    const ask = (path: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: "close" } }).then(
        ({ status }) => status,
        () => "closed",
      );
    const bad = ask("/bad");
    await until(() => waiting.length === 1);
    t.same(await Promise.all([bad, ask("/"), ask("/")]), ["closed", 204, 204]);
    t.match(told, [{ code: "ERR_HTTP_INVALID_STATUS_CODE" }]);
  },
);

t.test("a chunk of a stream that throws does the same", async (t) => {
  const told: unknown[] = [];
  const { whole } = await talk(t, ({ response }) => {
    const writer = new ResponseWriter(response, () => {}, { onFault: (thrown) => void told.push(thrown) });
    writer.head(200, ["content-type", "text/event-stream"], true);
    writer.write([{ length: 1, 0: 5n } as unknown as Buffer]);
  });
  await whole;
  t.equal(told.length, 1);
});

for (const [over, request] of [
  ["", ASK],
  [" over HTTP/1.0", OLD],
] as const)
  t.test(`a stream${over} is flushed when the system has taken all that was written`, async (t) => {
    const { promise, resolve } = Promise.withResolvers<ResponseWriter>();
    const { socket, whole } = await talk(
      t,
      (output) => {
        output.head(200, ["content-type", "text/event-stream"], true);
        resolve(output);
      },
      request,
    );
    const output = await promise;
    output.write([bytes(10)]);
    await until(() => output.isFlushed, "a small chunk is sent");
    socket.pause();
    const large = Buffer.alloc(32 << 20);
    output.write([large]);
    output.write([bytes(10)]);
    await new Promise((done) => setImmediate(done));
    t.notOk(output.isFlushed, "its client reads nothing");
    socket.resume();
    await until(() => output.isFlushed, "it has read all");
    output.end();
    const { length } = over === "" ? chunks(await whole).body : bodyOf(await whole);
    t.equal(length, large.length + 20);
  });
