/** The options of verbs that send requests to the admin side; each verb says which tokens it takes. */
export const ADMIN_HELP = `  --admin ADDRESS the admin listener of the running gateway, like 127.0.0.1:9090 or unix:FILE, if gateway.yaml no longer has it
  --token TOKEN   `;
