-- Settles holds whose owner was disconnected. ARGV[3]: owner, [4]: name of this batch, so that a repeated one counts once, then of
-- each: id, time, JSON, tokens, money, the scope at which nothing was used, the place of its row (see `owed`), the name under which it
-- counts once, and 1 if it counts although it is not known here.
local holds = P .. 'holds:' .. ARGV[3]
if not first('repay ' .. ARGV[4]) then return {} end
for i = 5, #ARGV, 9 do
  local id, time, json, tokens, cost, unused, place, once, counts = unpack(ARGV, i, i + 8)
  tokens = tonumber(tokens)
  local text = redis.call('HGET', holds, id)
  local orphan = reclaim(id)
  if not first(once) then tokens, cost = 0, '0' end
  if text then
    redis.call('HDEL', holds, id)
    finish(text, tokens, cost, unused, place)
  elseif orphan then
    local began, hold = unpacked(orphan[2])
    charge(began, hold, tokens, cost, unused, orphan[3])
  elseif counts == '1' then
    for _, level in ipairs(cjson.decode(json).levels) do
      local scope, t, c = level[1], tokens, cost
      if scope == unused then t, c = 0, '0' end
      if level[3] > 0 then correct(P .. 'tpm:' .. scope, tonumber(time), t) end
      for _, name in ipairs(sums(level)) do owed(P .. 'spent:' .. name, c, place) end
    end
  end
end
return {}
