-- Counts what the ledger knows of orphans, whoever has asked it. ARGV[3]: milliseconds after which the least charge counts without
-- a row, [4]: milliseconds to keep orphans, then of each: id, tokens, money (empty: there is no row), the scope at which nothing
-- was used, and the name under which it counts once.
for i = 5, #ARGV, 5 do
  local id, tokens, cost, unused, once = unpack(ARGV, i, i + 4)
  local text = redis.call('HGET', ORPHANS, id)
  if text then
    local orphan = cjson.decode(text)
    local time, reservation = parseReservation(orphan[2])
    local died, before, found, counted = orphan[1], orphan[3], cost ~= '', orphan[4]
    if found then
      if once ~= '' and once ~= counted then
        if counts(once) then counted = once else tokens, cost = 0, '0' end
      end
      -- It is kept in case that its owner comes back.
      redis.call('ZADD', DUE, died + tonumber(ARGV[4]), id)
    elseif not before and now - died >= tonumber(ARGV[3]) then
      tokens, cost, unused, found = reservation.minimum[1], reservation.minimum[2], '', true
    end
    if found then
      charge(time, reservation, tonumber(tokens), cost, unused, before)
      redis.call('HSET', ORPHANS, id, cjson.encode({ died, orphan[2], { tonumber(tokens), cost, unused }, counted }))
    end
  end
end
return {}
