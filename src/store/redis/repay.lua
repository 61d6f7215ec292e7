-- Settles reservations whose owner was disconnected. ARGV[3]: owner, [4]: name of this batch, so that a repeated one counts once,
-- then of each: id, time, JSON, tokens, money, the scope at which nothing was used, the place of its row (see `addPlaced`), the name
-- under which it counts once, and 1 if it counts although it is not known here.
local reservations = P .. 'reservations:' .. ARGV[3]
if not isNew('repay ' .. ARGV[4], HOUR) then return {} end
for i = 5, #ARGV, 9 do
  local id, time, json, tokens, cost, unused, place, once, unknownCounts = unpack(ARGV, i, i + 8)
  tokens = tonumber(tokens)
  local text = redis.call('HGET', reservations, id)
  local orphan = reclaim(id)
  if not counts(once) then tokens, cost = 0, '0' end
  if text then
    redis.call('HDEL', reservations, id)
    finish(text, tokens, cost, unused, place)
  elseif orphan then
    local began, reservation = parseReservation(orphan[2])
    charge(began, reservation, tokens, cost, unused, orphan[3])
  elseif unknownCounts == '1' then
    for _, level in ipairs(cjson.decode(json).levels) do
      local scope, t, c = level[1], tokens, cost
      if scope == unused then t, c = 0, '0' end
      if level[3] > 0 then correct(P .. 'tpm:' .. scope, tonumber(time), t) end
      for _, name in ipairs(sums(level)) do addPlaced(P .. 'spent:' .. name, c, place) end
    end
  end
end
return {}
