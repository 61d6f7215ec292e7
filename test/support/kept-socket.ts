import type { Test } from "tap";

/** What node's own servers are made of. It has no other way to a socket that this process does not take connections from. */
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

/** A bound socket that this process keeps, as systemd would, and that others listen on. */
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
