-- ARGV[3]: levels as JSON, like those of a hold.
local reply, missing = { 'ok', now }, { 'missing' }
local function say(value) reply[#reply + 1] = value end
for _, level in ipairs(cjson.decode(ARGV[3])) do
  local scope = level[1]
  for _, kind in ipairs({ 'rpm:', 'tpm:' }) do
    local sum, _, last = advance(P .. kind .. scope)
    say(sum)
    say(sum > 0 and (last + SECONDS) * 1000 - now or 0)
  end
  for _, name in ipairs(sums(level)) do
    local known = redis.call('HMGET', P .. 'spent:' .. name, 'spent', 'pending')
    if not known[1] then missing[#missing + 1] = name end
    say(known[1] or '0')
    say(known[2] or '0')
  end
  say(tonumber(redis.call('GET', P .. 'inside:' .. scope) or 0))
end
return #missing > 1 and missing or reply
