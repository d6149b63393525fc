--[[
take_room: how many connections a worker may have under one limit, and how many messages it may send now.

Promises: all workers together never have more connections than the limit, and never send more messages in any span of a
rate than that rate. What a worker holds counts until its `until`, so a worker that died frees its connections then. While
a worker that wants more has less than an equal share, those with more get less at their next question.
Refuses: nothing by itself; a worker whose connections were cut closes them, and says so with its next question.

`spacings` is `span:every_ms:burst` for each rate, with spaces between; `connections_max` of zero is no limit.

KEYS room
ARGV now:number worker lives_ms:number connections_max:number open:number wanted:number spacings messages:number
REPLY {connections, messages, ms until the next message, workers, rank of this one from 0, messages that could go at once,
       ms since Redis first heard of the room}
]]
-- @include clock
now = clock(now)

local others, others_open, hungry, rank = 0, 0, 0, 0
local held = redis.call('HGETALL', room)
for n = 1, #held, 2 do
  local name = string.match(held[n], '^w:(.+)$')
  if name and name ~= worker then
    local has, wants, lives = string.match(held[n + 1], '^(%d+):(%d+):(%d+)$')
    if tonumber(lives) <= now then
      redis.call('HDEL', room, held[n])
    else
      -- the clock was set back: one that died must not hold its connections until that time comes again
      if tonumber(lives) > now + 2 * lives_ms then
        redis.call('HSET', room, held[n], string.format('%d:%d:%d', has, wants, now + lives_ms))
      end
      others = others + 1
      others_open = others_open + tonumber(has)
      if name < worker then rank = rank + 1 end
      if tonumber(wants) > tonumber(has) then hungry = hungry + 1 end
    end
  end
end

local connections = wanted
if connections_max > 0 then
  local left = math.max(0, connections_max - others_open)
  if hungry > 0 then
    local share = math.floor(connections_max / (others + 1))
    if rank < connections_max % (others + 1) then share = share + 1 end
    left = math.min(left, math.max(1, share))
  end
  connections = math.min(wanted, left)
end
-- until it says otherwise, it still has those that it had open
redis.call('HSET', room, 'w:' .. worker,
  string.format('%d:%d:%d', math.max(connections, open), wanted, now + lives_ms))
local expires = lives_ms

local due, granted, at_once = {}, messages, 1e9
for span, every, burst in string.gmatch(spacings, '(%d+):([%d.]+):(%d+)') do
  every, burst = tonumber(every), tonumber(burst)
  local next_at = math.max(tonumber(redis.call('HGET', room, 'd:' .. span)) or now, now)
  -- what was granted under a slower rate is paid for by waiting once under this one
  next_at = math.min(next_at, now + burst * every)
  local can = math.max(0, math.floor((now + (burst - 1) * every - next_at) / every) + 1)
  at_once = math.min(at_once, can)
  due[#due + 1] = { span = span, every = every, burst = burst, next_at = next_at }
end
granted = math.max(0, math.min(messages, at_once))
local wait = 0
for _, one in ipairs(due) do
  local next_at = one.next_at + granted * one.every
  if granted > 0 then redis.call('HSET', room, 'd:' .. one.span, string.format('%.3f', next_at)) end
  wait = math.max(wait, next_at - (one.burst - 1) * one.every - now)
  expires = math.max(expires, next_at - now)
end
local since = tonumber(redis.call('HGET', room, 'since'))
if not since or since > now then
  since = now
  redis.call('HSET', room, 'since', since)
end
local age = now - since
redis.call('PEXPIRE', room, math.ceil(expires))

return { connections, granted, math.ceil(wait), others + 1, rank, math.min(at_once - granted, 1e9), age }
