import { createServer, request } from "node:http";
import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { each } from "../support/raw.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { tried } from "../support/sample.ts";

const all = recordings();
/** Recordings at a time; each gateway handles as many at once. */
const AT_ONCE = 16;

/** Cuts that differ from run to run of a recording but not from test to test. */
function* cuts(length: number, seed: number): Generator<number> {
  let state = seed * 2654435761 + 1;
  for (let at = 0; at < length; ) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    at += 1 + ((state % 997) ** (state % 3 === 0 ? 2 : 1) % 4096);
    yield Math.min(at, length);
  }
}

async function upstream(t: Test, found: readonly Recording[]) {
  const server = createServer(async (incoming, response) => {
    incoming.resume();
    const index = Number(incoming.headers["x-recording"]);
    const { status, body, contentType } = found[index] as Recording;
    response.writeHead(status, { "content-type": contentType });
    response.flushHeaders();
    let from = 0;
    for (const to of cuts(body.length, index)) {
      response.write(body.subarray(from, to));
      from = to;
      // Lets the piece leave as one of its own now and then.
      if (to % 3 === 0) await new Promise(setImmediate);
    }
    response.end();
  });
  return `http://127.0.0.1:${await listen(t, server)}/v1`;
}

interface Answer {
  status: number;
  body: Buffer;
  whole: boolean;
}

function ask(port: number, recording: Recording, index: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = asking({ "x-recording": String(index) });
    const body = JSON.stringify({ model: "any", stream: recording.streaming, stream_options: { include_usage: true } });
    const outgoing = request({ port, host: "127.0.0.1", method: "POST", path: recording.path, headers }, (response) => {
      const pieces: Buffer[] = [];
      const settle = () =>
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(pieces), whole: response.complete });
      response
        .on("data", (piece: Buffer) => pieces.push(piece))
        .on("end", settle)
        .on("error", settle);
    });
    outgoing.on("error", reject).end(body);
  });
}

/** A Chat stream that was filed among Responses: for that protocol it never ends. */
const MISFILED = "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1.stream__0";
/** Streams that the provider or the recorder broke off; the gateway must say so behind the recorded bytes. */
const isCut = ({ id, kinds }: Recording): boolean => kinds.includes("truncated") || id === MISFILED;

/** Streams in which the provider reports an error: for the client they do not end like complete ones. */
const reportsError = ({ id }: Recording): boolean => /test_tool_use_failed_error_streaming(?:_with_text)?__0$/.test(id);

/** A provider's error loses ids of accounts on its way, whether they are ours or another client's; one recording has one. */
const withoutAccounts = ({ status, body }: Recording): Buffer =>
  status < 300 ? body : Buffer.from(body.toString("latin1").replace(/(?<=\\?")user_2wT5\w+(?=\\?")/, "***"), "latin1");

t.test(
  "every recorded 2xx and 4xx answer reaches the client byte for byte, however it is split",
  { skip: !all && "recordings are absent" },
  async (t) => {
    const found = (all as Recording[]).filter(({ status }) => status < 500);
    const url = await upstream(t, found);
    const protocols = [...new Set(found.map(({ protocol }) => protocol))];
    const { port, gateway } = await startGateway(
      t,
      `providers: { rec: { url: "${url}", speaks: [${protocols.join(", ")}], forward: [x-recording] } }\nmodels: { any: { targets: [rec:any] } }\n`,
    );
    t.ok(found.length > tried(1700), `${found.length} recordings`);
    const odd: string[] = [];
    const check = async ([index, recording]: [number, Recording]) => {
      const { status, body, whole } = await ask(port, recording, index);
      const same = body.equals(withoutAccounts(recording)) && whole !== reportsError(recording);
      const fine =
        status === recording.status &&
        (isCut(recording) ? body.subarray(0, recording.body.length).equals(recording.body) : same);
      if (!fine)
        odd.push(
          `${recording.id}: ${status}, ${body.length} of ${recording.body.length} bytes, whole ${whole}, ends ${JSON.stringify(body.subarray(-80).toString())}`,
        );
    };
    await each([...found.entries()], check, AT_ONCE);
    t.same(odd, []);
    await gateway.stores.ledger.flush();
    const sums = await gateway.stores.ledger.sums({ by: ["model"] });
    t.equal(sums[0]?.requests, found.length, "one ledger entry each");
  },
);
