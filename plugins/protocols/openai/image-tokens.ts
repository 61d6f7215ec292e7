/** Tokens of a square image of high quality, as most models draw it. [S: the vendor's guide to image generation] */
export const IMAGE_TOKENS = 4160;

const QUALITIES = ["low", "medium", "high"] as const;
type Quality = (typeof QUALITIES)[number];

/** Tokens of an image of the models that draw three sizes, by size and quality. [S: the vendor's guide to image generation] */
const FIXED_SIZES: Readonly<Record<string, Readonly<Record<Quality, number>>>> = {
  "1024x1024": { low: 272, medium: 1056, high: 4160 },
  "1024x1536": { low: 408, medium: 1584, high: 6240 },
  "1536x1024": { low: 400, medium: 1568, high: 6208 },
};
const FIXED_SIZE_MODEL = /gpt-image-1|chatgpt-image/;
const FREE_SIZE_MODEL = /gpt-image-[2-9]/;

/**
 * Patches on an image's longer side, for models that draw any size. With these the vendor's prices of three sizes and the recorded
 * 13,342 tokens of one of 3840x2160 come out exactly.
 */
const PATCHES: Readonly<Record<Quality, number>> = { low: 16, medium: 48, high: 96 };
const SIZE = /^[1-9]\d{1,4}x[1-9]\d{1,4}$/;
/** What `auto` may choose: the square is the dearest of the sizes that clients usually name. */
const USUAL_SIZE = "1024x1024";

/** What a request for an image may say of it. */
export const IMAGE_MEMBERS = ["size", "quality", "partial_images"] as const;
/** Tokens of each preview of an image in a stream, and how many there may be. [D: the vendor's guide to image generation] */
const [PARTIAL_TOKENS, MAX_PARTIALS] = [100, 3];

/**
 * Returns the maximum output tokens of an image and its previews. Counts the dearest of what the request leaves open, and for a
 * model of an unknown name the dearer of both kinds.
 */
export function imageTokens(
  model: string | undefined,
  asked: (name: (typeof IMAGE_MEMBERS)[number]) => unknown,
): number {
  // Not every object can be made a text, as its `toString` may be the client's.
  const [size, quality, partials] = IMAGE_MEMBERS.map(asked).map((value) => (value instanceof Object ? "" : value));
  const dearest = QUALITIES.find((each) => each === quality) ?? "high";
  const fixed = FREE_SIZE_MODEL.test(model ?? "") ? 0 : fixedSizeTokens(size, dearest);
  const free = FIXED_SIZE_MODEL.test(model ?? "") ? 0 : freeSizeTokens(size, dearest);
  return Math.max(fixed, free) + partialCount(partials) * PARTIAL_TOKENS;
}

/**
 * Returns the tokens of an image whose own are unknown because the stream ended first: of the size and quality that were asked for; a
 * usual figure where neither was.
 */
export function usualImageTokens(
  model: string | undefined,
  asked: (name: (typeof IMAGE_MEMBERS)[number]) => unknown,
): number {
  const [size = "", quality] = [asked("size"), asked("quality")].map((value) =>
    typeof value === "string" ? value : "",
  );
  const named = QUALITIES.find((each) => each === quality);
  if (!SIZE.test(size) && !named) return IMAGE_TOKENS;
  const isFixed = !FREE_SIZE_MODEL.test(model ?? "") && (Object.hasOwn(FIXED_SIZES, size) || !SIZE.test(size));
  return isFixed
    ? fixedSizeTokens(SIZE.test(size) ? size : USUAL_SIZE, named ?? "high")
    : freeSizeTokens(size, named ?? "high");
}

/** Returns how many previews a request asks for, in a form as a text; all where it cannot be read. */
function partialCount(asked: unknown): number {
  if (asked === undefined || asked === null) return 0;
  return /^[0-2]$/.test(String(asked)) ? Number(asked) : MAX_PARTIALS;
}

function fixedSizeTokens(size: unknown, quality: Quality): number {
  const asked = Object.hasOwn(FIXED_SIZES, String(size)) ? [FIXED_SIZES[String(size)]] : Object.values(FIXED_SIZES);
  return Math.max(...asked.map((tokens) => tokens?.[quality] ?? 0));
}

function freeSizeTokens(size: unknown, quality: Quality): number {
  const [width = 0, height = 0] = (SIZE.test(String(size)) ? String(size) : USUAL_SIZE).split("x").map(Number);
  const patches = PATCHES[quality];
  const shorter = Math.max(1, Math.round((patches * Math.min(width, height)) / Math.max(width, height)));
  return Math.ceil((patches * shorter * (2_000_000 + width * height)) / 4_000_000);
}
