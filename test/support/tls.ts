/** A certificate for provider.test and 127.0.0.1, and its key, generated for tests and used nowhere else. */
const pem = (what: string, lines: readonly string[]): string =>
  [`-----BEGIN ${what}-----`, ...lines, `-----END ${what}-----`, ""].join("\n");

export const certificate = pem("CERTIFICATE", [
  "MIIBqDCCAU2gAwIBAgIUNG2NjUMKJtd/1Nv0EOypfqf+vMAwCgYIKoZIzj0EAwIw",
  "GDEWMBQGA1UEAwwNcHJvdmlkZXIudGVzdDAgFw0yNjExMjExNjA0MzlaGA8yMTI2",
  "MTAyODE2MDQzOVowGDEWMBQGA1UEAwwNcHJvdmlkZXIudGVzdDBZMBMGByqGSM49",
  "AgEGCCqGSM49AwEHA0IABLaZ4C3XiE6N4MgPG1Hp/yLQXPRcjuXL4N5GxMx5Uxaz",
  "cNRsK4gKjdx6W9GshFr73ic+eE6o/svmu7YG6GkNIHqjczBxMB0GA1UdDgQWBBQd",
  "33nZv6Ci0NsRbnb2aCNOoz8dvzAfBgNVHSMEGDAWgBQd33nZv6Ci0NsRbnb2aCNO",
  "oz8dvzAPBgNVHRMBAf8EBTADAQH/MB4GA1UdEQQXMBWCDXByb3ZpZGVyLnRlc3SH",
  "BH8AAAEwCgYIKoZIzj0EAwIDSQAwRgIhALKS7Nu3S6h8EtYuucIVLcMJFpwLQ60j",
  "+dUnoGF7zuMlAiEA/y8k3/cfXj+bkyUsl94oQ0XtwtjWgs3Uj6sDnZlOoAE=",
]);

export const key = pem("PRIVATE KEY", [
  "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgg3Fg1n3bGpB6stBu",
  "EG4R/81IlmTHa9CBcKGuYhjvcRyhRANCAAS2meAt14hOjeDIDxtR6f8i0Fz0XI7l",
  "y+DeRsTMeVMWs3DUbCuICo3celvRrIRa+94nPnhOqP7L5ru2BuhpDSB6",
]);
