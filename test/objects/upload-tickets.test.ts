import t from "tap";
import { UploadTickets } from "../../src/objects/upload-tickets.ts";

const tickets = new UploadTickets("a secret of this test");
const upload = { path: "/upload/v1beta/*", session: "AB_1-x/" };
const WEEK = 7 * 24 * 3_600_000;

t.test("a ticket proves for a week which key began an upload", async (t) => {
  for (const key of ["abc", "", "schlüssel 1"]) {
    const ticket = tickets.issue(key, upload, 1000);
    t.match(ticket, /^[\w.-]+$/, "needs no escapes in a query");
    t.equal(tickets.keyOf(ticket, upload, 1000 + WEEK - 1), key);
    t.equal(tickets.keyOf(ticket, upload, 1000 + WEEK), undefined);
    t.equal(new UploadTickets("a secret of this test").keyOf(ticket, upload, 1000), key, "after a restart");
    t.equal(new UploadTickets("another secret").keyOf(ticket, upload, 1000), undefined);
    t.equal(tickets.keyOf(ticket, { ...upload, session: "AB_2" }, 1000), undefined);
    t.equal(tickets.keyOf(ticket, { ...upload, path: "/*" }, 1000), undefined);
  }
});

t.test("a ticket that was changed proves nothing", async (t) => {
  const ticket = tickets.issue("abc", upload, 1000);
  const [key = "", expires = "", mac = ""] = ticket.split(".");
  const others = [
    "",
    "..",
    `${key}.${expires}.`,
    `${Buffer.from("abd").toString("base64url")}.${expires}.${mac}`,
    `${key}.z${expires}.${mac}`,
    `${key}.${expires}.${mac.toUpperCase()}`,
    ticket.slice(0, -1),
    `${ticket}0`,
  ];
  for (const other of others) t.equal(tickets.keyOf(other, upload, 1000), undefined, other);
});
