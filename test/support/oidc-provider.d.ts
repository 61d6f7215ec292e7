/** The parts of `oidc-provider` that tests use; the package brings no types. */
declare module "oidc-provider" {
  import type { RequestListener } from "node:http";

  export class Provider {
    constructor(issuer: string, configuration: object);
    callback(): RequestListener;
    on(event: string, listener: (...facts: unknown[]) => void): this;
  }
}
