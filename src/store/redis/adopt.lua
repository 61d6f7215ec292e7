-- Adds running reservations that are not known here, even without room for them. ARGV[3]: owner, then of each: id, time, JSON.
local reservations = P .. 'reservations:' .. ARGV[3]
for i = 4, #ARGV, 3 do
  local id, time, json = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if redis.call('HEXISTS', reservations, id) == 0 then
    local reservation = cjson.decode(json)
    -- Other gateways took its owner for dead, because it was unreachable.
    local orphan = reclaim(id)
    local before = orphan and orphan[3]
    local reserved = orphan and not before
    for _, level in ipairs(reservation.levels) do
      local scope, rpm, tpm, asked = unpack(level)
      enter(scope)
      local counted = before and before[3] ~= scope and before or { 0, '0' }
      if rpm > 0 and not orphan then correct(P .. 'rpm:' .. scope, time, 1) end
      if tpm > 0 and not reserved then correct(P .. 'tpm:' .. scope, time, asked - counted[1]) end
      for _, name in ipairs(reserved and {} or sums(level)) do
        local key = P .. 'spent:' .. name
        if redis.call('EXISTS', key) == 0 then
          redis.call('HSET', key, 'pending', '0')
          redis.call('PEXPIRE', key, DAY)
        end
        increase(key, 'pending', reservation.maximum[2])
        if redis.call('HEXISTS', key, 'spent') == 1 then decrease(key, 'spent', counted[2]) end
      end
    end
    redis.call('HSET', reservations, id, ARGV[i + 1] .. '|' .. json)
    redis.call('PEXPIRE', reservations, DAY)
  end
end
return {}
