-- ARGV[3]: levels as JSON, like those of a reservation.
local reply, missing = { 'ok', now }, { 'missing' }
local function add(value) reply[#reply + 1] = value end
for _, level in ipairs(cjson.decode(ARGV[3])) do
  local scope = level[1]
  for _, kind in ipairs({ 'rpm:', 'tpm:' }) do
    local sum, _, last = advance(P .. kind .. scope)
    add(sum)
    add(sum > 0 and (last + SECONDS) * 1000 - now or 0)
  end
  for _, name in ipairs(sums(level)) do
    local known = redis.call('HMGET', P .. 'spent:' .. name, 'spent', 'pending')
    if not known[1] then missing[#missing + 1] = name end
    add(known[1] or '0')
    add(known[2] or '0')
  end
  add(tonumber(redis.call('GET', P .. 'running:' .. scope) or 0))
end
return #missing > 1 and missing or reply
