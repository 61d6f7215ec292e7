/** The options of verbs that send requests to the admin side; each verb says which tokens it takes. */
export const ADMIN_HELP = `  --admin ADDRESS the admin side of the gateway that runs, like 127.0.0.1:9090 or unix:FILE, where gateway.yaml does not say it any more
  --token TOKEN   `;
