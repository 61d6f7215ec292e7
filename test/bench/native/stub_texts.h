/* The words of the stub upstream: heads and bodies as a real vendor sends them. */
#ifndef BENCH_STUB_TEXTS_H
#define BENCH_STUB_TEXTS_H

#define ID "\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\""

static const char *COMMON_HEADERS =
    "Date: Thu, 20 Nov 2025 10:00:00 GMT\r\n"
    "Connection: keep-alive\r\n"
    "access-control-expose-headers: X-Request-ID\r\n"
    "openai-organization: user-abcdefghijklmnop\r\n"
    "openai-processing-ms: 312\r\n"
    "openai-version: 2020-10-01\r\n"
    "x-ratelimit-limit-requests: 10000\r\n"
    "x-ratelimit-limit-tokens: 2000000\r\n"
    "x-ratelimit-remaining-requests: 9999\r\n"
    "x-ratelimit-remaining-tokens: 1999975\r\n"
    "x-request-id: req_0123456789abcdef0123456789abcdef\r\n"
    "strict-transport-security: max-age=31536000; includeSubDomains; preload\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Server: cloudflare\r\n";

static const char *JSON_BODY =
    "{" ID ",\"object\":\"chat.completion\",\"created\":1741569952,\"model\":\"gpt-4o-mini-2024-07-18\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello! How can I assist you today? "
    "I can help with code, text, data and more.\",\"refusal\":null,\"annotations\":[]},\"logprobs\":null,"
    "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,"
    "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},\"completion_tokens_details\":"
    "{\"reasoning_tokens\":0,\"audio_tokens\":0}},\"service_tier\":\"default\",\"system_fingerprint\":\"fp_44709d6fcb\"}";

#define CHUNK_START "data: {" ID ",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"gpt-4o-mini\","

/* One event; the argument is the clock in nanoseconds. */
static const char *SSE_EVENT =
    CHUNK_START "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@T%016llx@\"},\"finish_reason\":null}]}\n\n";

/* The end of a stream; the arguments are completion and total tokens. */
static const char *SSE_TAIL =
    CHUNK_START "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    CHUNK_START "\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":%d,\"total_tokens\":%d,"
    "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0}}}\n\n"
    "data: [DONE]\n\n";

#endif
