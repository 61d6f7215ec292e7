import { type Client, loadClients } from "../loader/clients.ts";
import type { AdminAct } from "./route.ts";

/** Read when they are first asked for: they come with the gateway. */
let known: readonly Client[] | undefined;

/** What clients are told to speak with the gateway, and where it listens, as far as it knows: a proxy may stand in front. */
export const clients: AdminAct = async ({ config: { listen } }) => {
  known ??= loadClients();
  return { body: { listen, clients: known } };
};
