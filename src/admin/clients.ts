import { knownClients } from "../loader/clients.ts";
import type { AdminHandler } from "./route.ts";

/** Returns the settings that clients need for the gateway, and where it listens as far as it knows: a proxy may be in front. */
export const clients: AdminHandler = async ({ config: { listen } }) => ({
  body: { listen, clients: knownClients() },
});
