const CA = "put the path of a file with its CA certificate into NODE_EXTRA_CA_CERTS";
const UNKNOWN_CA = `its certificate is of a CA that is not known here: ${CA}`;
const NO_TLS = "it does not use TLS at this port: is the URL http://, or the port another one?";

/** For operators: what it means that a server could not be reached, by the code of Node's error. */
export const TRANSPORT_REASONS: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "no server listens there"],
  ["ENOTFOUND", "the host is unknown: is the name right, does DNS work?"],
  ["EAI_AGAIN", "DNS does not answer"],
  ["ECONNRESET", "the connection was cut"],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", `its certificate is self-signed: ${CA}`],
  ["SELF_SIGNED_CERT_IN_CHAIN", UNKNOWN_CA],
  ["UNABLE_TO_GET_ISSUER_CERT", UNKNOWN_CA],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", UNKNOWN_CA],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", UNKNOWN_CA],
  ["CERT_HAS_EXPIRED", "its certificate has expired, or this machine's clock is wrong"],
  ["CERT_NOT_YET_VALID", "its certificate is not valid yet, or this machine's clock is wrong"],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "its certificate is for another host"],
  ["ERR_SSL_WRONG_VERSION_NUMBER", NO_TLS],
  ["ERR_SSL_PACKET_LENGTH_TOO_LONG", NO_TLS],
]);
