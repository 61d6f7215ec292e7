import type { Test } from "tap";

/** The internals of node's own servers, the only way to a socket on which this process does not accept connections. */
interface TcpHandle {
  readonly fd: number;
  bind(address: string, port: number): number;
  getsockname(out: object): number;
  close(): void;
}
interface TcpWrap {
  TCP: new (kind: number) => TcpHandle;
  constants: { SERVER: number };
}

/** Creates a bound socket that this process keeps open, like systemd, and that others listen on. */
export function boundSocket(t: Test): { fd: number; port: number } {
  const { binding } = process as unknown as { binding(name: string): TcpWrap };
  const { TCP, constants } = binding("tcp_wrap");
  const handle = new TCP(constants.SERVER);
  if (handle.bind("127.0.0.1", 0) !== 0) throw new Error("no address could be bound");
  const address = { port: 0 };
  handle.getsockname(address);
  t.teardown(() => handle.close());
  return { fd: handle.fd, port: address.port };
}
