import { z } from "zod";
import { period } from "../quantities.ts";
import { address } from "./fields.ts";

const OidcRolesSchema = z.strictObject({
  claim: z
    .string()
    .min(1)
    .describe("Claim with the user's groups or roles; dots name members of objects: realm_access.roles.")
    .default("groups"),
  admin: z.array(z.string()).describe("Values of the claim that give the role admin: read and change.").default([]),
  viewer: z
    .array(z.string())
    .describe('Values of the claim that give the role viewer: read only; "*": everybody who can sign in.')
    .default([]),
});

/** Sign-in at an identity provider. */
export const OidcSchema = z.strictObject({
  issuer: z.string().describe("Issuer URL of the identity provider, as in its discovery document. May contain $NAME."),
  client_id: z.string().min(1).describe("Client id of this gateway at the identity provider. May contain $NAME."),
  client_secret: z.string().describe("Client secret: $NAME or $file:/path; absent for a public client.").optional(),
  url: z
    .string()
    .describe(
      "URL at which browsers reach the console, like https://console.example.com. Register its /api/session/callback at the identity provider.",
    ),
  scope: z.string().describe("Scopes that are requested.").default("openid profile email"),
  name: z
    .string()
    .min(1)
    .describe("Claim that names the user in the audit trail; when absent: email, preferred_username or sub.")
    .optional(),
  roles: OidcRolesSchema.prefault({}).describe("Which users get which role."),
});

/** The admin listener, with its tokens and sign-in. */
export const AdminSchema = z.strictObject({
  listen: address("Where the admin listener listens: an address, or unix:FILE.").prefault("127.0.0.1:9090"),
  token: z
    .string()
    .describe("Token that may read and change everything: $NAME or $file:/path, 20 characters or more.")
    .optional(),
  viewer: z.string().describe("Token that may only read: $NAME or $file:/path, 20 characters or more.").optional(),
  hosts: z
    .array(z.string())
    .describe("Further names that are accepted in the Host header, like console.example.com.")
    .default([]),
  session: period.prefault("12h").describe("How long a user stays signed in."),
  oidc: OidcSchema.describe(
    "Sign-in at an identity provider (OpenID Connect); needs the package openid-client.",
  ).optional(),
});
