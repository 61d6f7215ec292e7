/** Yields the server-sent events of a response as they arrive: `{ name, data }`, with the original lines in `raw`. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += done ? "" : value;
    const pieces = rest.split(/\r?\n\r?\n/);
    rest = pieces.pop();
    for (const raw of pieces) if (raw.trim() !== "") yield eventOf(raw);
    if (!done) continue;
    if (rest.trim() !== "") yield eventOf(rest);
    return;
  }
}

function eventOf(raw) {
  const lines = raw.split(/\r?\n/);
  const of = (field) =>
    lines.flatMap((line) => (line.startsWith(`${field}:`) ? [line.slice(field.length + 1).replace(/^ /, "")] : []));
  return { raw, name: of("event")[0], data: of("data").join("\n") };
}
