import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { JsonObject } from "../wire/values.ts";
import type { Body } from "./body.ts";
import type { ErrorDetails } from "./errors.ts";

/** The part of a request's body that shows what its top level asks for. */
export type RequestMembers = Pick<Body, "member" | "slice">;

/** The members that name objects which the vendor keeps: files, stores, containers, responses and their items. */
export interface ObjectMembers {
  /** Top-level members of a request that name one. */
  readonly topLevel: readonly string[];
  /** Members that name one at any depth. Their value is an id, a list of ids, or an object with its `id`. */
  readonly anyDepth: readonly string[];
  /** Like `anyDepth`, but a string there names nothing: a built-in voice, the text of a prompt. */
  readonly objectsOnly?: readonly string[];
  /**
   * Members at any depth that name something of the account by being there, under their own name: an address that the vendor
   * calls with the account's identity, a choice of another model.
   */
  readonly byPresence?: readonly string[];
  /**
   * The path of a member of a top-level object whose answer the vendor only compares with: where the caller may not name it, it
   * is left out of the request.
   */
  readonly comparedWith?: readonly [member: string, name: string];
  /** The `type` of objects whose own `id` names another object. */
  readonly referenceTypes?: readonly string[];
  /**
   * Like `referenceTypes`, by type, with the name of a member that may hold the whole content. Other protocols read no id there.
   */
  readonly inlineContent?: Readonly<Record<string, string>>;
  /**
   * Like `referenceTypes`, for items that report what the vendor made, which no other protocol looks up either: by type, the
   * member (`sealed`) that makes a lookup unnecessary, and those (`beside`) with which the id may be the client's own.
   */
  readonly outputItems?: Readonly<Record<string, { readonly sealed: string; readonly beside: readonly string[] }>>;
  /** The `type` of objects in a member `source` that stand for objects made with any key; such a request names the type. */
  readonly sharedSourceTypes?: readonly string[];
  /** Set if a list element that has only an `id`, without a `type`, names another object too. */
  readonly untypedElements?: true;
  /** Members that the vendor does not search: arguments, schemas, labels. */
  readonly notSearched: readonly string[];
  /** Returns the id in the text of such a member (or list element); undefined: it names nothing that the vendor keeps. */
  readonly id?: (text: string, member?: string | number) => string | undefined;
  /** A prefix of such an id: the rest names a place whose objects belong to no key, like a bucket. */
  readonly placePrefix?: string;
  /** URL members that name something only if they begin with `placePrefix`, and only for servers that speak the protocol. */
  readonly urlMembers?: readonly string[];
  /** Strings that name an object in members of any name. */
  readonly recognized?: RecognizedObjects;
  /**
   * Members that name a file whose lines the vendor runs as requests, though no purpose says so when it is uploaded: anywhere, or only
   * inside others.
   */
  readonly requestFiles?: readonly { readonly members: readonly string[]; readonly inside?: readonly string[] }[];
  /** The error details for an unknown object named there, if clients need other words to continue. */
  readonly unknownError?: (param: string) => ErrorDetails | undefined;
  /** Returns false if the response to a request makes nothing that can be named. Called for each response: inspects bytes. */
  createsObjects?(request: RequestMembers): boolean;
  /** Top-level members of a response that hold ids of what it made. */
  readonly createdIdMembers: readonly string[];
  /** Returns the ids in these members, or in an event of a stream. */
  createdIds(json: JsonObject, request: RequestMembers): Iterable<string>;
  /** Returns false for a frame that holds no id. Called for each frame: inspects bytes. */
  mayHoldIds(frame: Frame): boolean;
}

/** Strings that name an object by their form, like `files/abc` or the address of a bucket. */
export interface RecognizedObjects {
  /** The beginnings of all such strings as they are written in JSON, three characters or more with the quote before them. */
  readonly starts: readonly string[];
  /** Members whose own strings are texts, or names that the client chooses. */
  readonly texts?: readonly string[];
  /** Members with data of the client's, in which the vendor looks nothing up at any depth: arguments, results, examples. */
  readonly data?: readonly string[];
  /** The `type` of objects that the vendor reads in such data too, like an image in a tool's result. */
  readonly contentTypes?: readonly string[];
  /** Set if such a string may be the client's own: it is refused only where it is known to belong to another key. */
  readonly mayBeInvented?: true;
  /**
   * Returns the id in a string; undefined: it names nothing that the vendor keeps.
   * @param member the nearest member that contains it
   */
  id(text: string, member: string): string | undefined;
}

/** How a vendor's complete API names objects; for passthrough paths. */
export interface VendorObjects {
  /** Path parts that an id follows, in lower case: `files`, `fine_tuning/jobs`. */
  readonly collections: readonly string[];
  /** Values that may stand in place of an id without being one. */
  readonly actions: readonly string[];
  /** Collections that every key may read, like `models`. */
  readonly public: readonly string[];
  /** Path segments below which requests concern the whole account, in lower case: members, webhooks that report on every key. */
  readonly account: readonly string[];
  /** Where bodies name objects (`anyDepth`), and the response members that hold ids of created objects. */
  readonly bodyMembers: ObjectMembers;
  /**
   * Collections whose objects report the ids of others derived from them, each with the paths of members that hold those ids
   * (`output_file_id`, `response.responsesFile`). They are read only in responses that are the object itself: paths below it return contents, which may be anybody's text.
   */
  readonly derived: Readonly<Record<string, readonly string[]>>;
  /**
   * Response members of a collection that give a URL at the vendor where clients continue with their current key, at top level or
   * in the entries of `data`.
   */
  readonly urlMembers?: Readonly<Record<string, readonly string[]>>;
  /** How files are uploaded in several requests; undefined: no such uploads are known. */
  readonly resumableUploads?: ResumableUploads;
  readonly requestFiles?: RequestFiles;
}

/** How files of requests are uploaded that the vendor runs later, one JSON text in each line. */
export interface RequestFiles {
  /** The form's field with the file. */
  readonly field: string;
  /** The field with the file's purpose, and the purposes of such files, in lower case. */
  readonly purposeField: string;
  readonly purposes: readonly string[];
  /** The collection of uploads in parts, in whose requests the purpose is a member. */
  readonly uploads: string;
}

/** Resumable uploads: a first request, whose response gives the URL for the bytes. */
export interface ResumableUploads {
  /** The first part of their paths, before the version: `/upload`. Requests elsewhere are JSON or forms. */
  readonly pathPrefix: string;
  /** Their headers, in both directions: exact lower-case names, or prefixes ending in `*`. */
  readonly headers: readonly string[];
  /** Response headers that hold a URL where the client continues. */
  readonly urlHeaders: readonly string[];
  /** The query parameter that marks such a URL: what is sent there is a file. */
  readonly sessionParameter: string;
  /** Returns where a piece says that it belongs in its file; undefined: it does not say it. */
  piece(headers: HeaderList): UploadPiece | undefined;
  /**
   * Returns the file that the response to its last piece reports in the members `createdIdMembers`; undefined: it reports none, or
   * not all of this.
   */
  uploadedFile(response: JsonObject): UploadedFile | undefined;
}

/** A file as its vendor describes it. */
interface UploadedFile {
  readonly id: string;
  /** The SHA-256 of its bytes, in hexadecimal digits. */
  readonly sha256: string;
  /** When the vendor deletes it, in milliseconds. */
  readonly expires: number;
}

/** A piece of a file that is uploaded in several requests. */
export interface UploadPiece {
  /** Number of the file's bytes before it. */
  readonly offset: number;
  readonly last: boolean;
}
