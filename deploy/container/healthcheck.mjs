// Ends with 0 when the gateway in this container takes requests.
const place = process.env.GATEWAY_ADMIN ?? "127.0.0.1:9090";
try {
  const { ok } = await fetch(`http://${place}/readyz`, { signal: AbortSignal.timeout(2500) });
  process.exitCode = ok ? 0 : 1;
} catch {
  process.exitCode = 1;
}
