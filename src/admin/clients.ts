import { knownClients } from "../loader/clients.ts";
import type { AdminAct } from "./route.ts";

/** What clients are told to speak with the gateway, and where it listens, as far as it knows: a proxy may stand in front. */
export const clients: AdminAct = async ({ config: { listen } }) => ({
  body: { listen, clients: knownClients() },
});
