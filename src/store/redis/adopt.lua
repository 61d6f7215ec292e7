-- ARGV[3]: owner, then of each hold: id, time, JSON. Adds running holds that are not known here, even without room for them.
local holds, marks = P .. 'holds:' .. ARGV[3], P .. 'ended:' .. ARGV[3]
for i = 4, #ARGV, 3 do
  local id, time, json = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if redis.call('HEXISTS', holds, id) == 0 then
    local hold = cjson.decode(json)
    -- Other gateways had ended it, because its owner was unreachable.
    local ended = redis.call('HDEL', marks, id) == 1
    for _, level in ipairs(hold.levels) do
      local scope, rpm, tpm, asked = unpack(level)
      enter(scope)
      if rpm > 0 and not ended then correct(P .. 'rpm:' .. scope, time, 1) end
      if tpm > 0 then correct(P .. 'tpm:' .. scope, time, ended and asked - hold.least[1] or asked) end
      for _, name in ipairs(sums(level)) do
        local key = P .. 'spent:' .. name
        if redis.call('EXISTS', key) == 0 then
          redis.call('HSET', key, 'pending', '0')
          redis.call('PEXPIRE', key, DAY)
        end
        increase(key, 'pending', hold.most[2])
        if ended and redis.call('HEXISTS', key, 'spent') == 1 then decrease(key, 'spent', hold.least[2]) end
      end
    end
    redis.call('HSET', holds, id, ARGV[i + 1] .. '|' .. json)
    redis.call('PEXPIRE', holds, DAY)
  end
end
return {}
