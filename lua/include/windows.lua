-- The windows of a workspace's use: day and month of the quota, day and hour of the caps. The hour is the current
-- 5-minute bucket and the 13 before it, kept as 14 slots and their sum. Windows only move forward.
local SLOTS, BUCKET_MS, DAY_MS = 14, 300000, 86400000

-- months since year 0, from days since 1970 (civil calendar)
local function month_of(day)
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return year * 12 + month - 1
end

-- The limits of single streams, as rules/stream.ts writes them.
local function read_streams(text)
  local streams = {}
  for name, bulk, reserved, most in string.gmatch(text, '([^ :]+):(%d):([^ :]+):([^ :]+)') do
    streams[#streams + 1] = { name = name, bulk = tonumber(bulk), reserved = tonumber(reserved), most = tonumber(most) }
  end
  return streams
end

-- What the streams used of the day and the hour, and what waits in them.
local function open_streams(use, streams)
  for _, one in ipairs(streams) do
    local fields = { 'd:' .. one.name, 'w:' .. one.name }
    for slot = 0, SLOTS - 1 do fields[#fields + 1] = 'n' .. slot .. ':' .. one.name end
    local f = redis.call('HMGET', use, unpack(fields))
    one.day, one.waiting, one.hour = tonumber(f[1]) or 0, tonumber(f[2]) or 0, 0
    for n = 3, #fields do one.hour = one.hour + (tonumber(f[n]) or 0) end
  end
end

-- Reads the use, moves it to `now` and returns it as a table; changed fields are written at once.
local function open_windows(use, now, streams)
  local f = redis.call('HMGET', use, 'epoch', 'month', 'month_used', 'day', 'day_used', 'cap_day_used', 'cap_day_bulk',
    'bucket', 'hour_used', 'hour_bulk', 'waiting', 'waiting_bulk')
  if not f[1] then return nil end
  local w = { epoch = f[1] }
  local names = { 'epoch', 'month', 'month_used', 'day', 'day_used', 'cap_day_used', 'cap_day_bulk', 'bucket',
    'hour_used', 'hour_bulk', 'waiting', 'waiting_bulk' }
  for n = 2, #names do w[names[n]] = tonumber(f[n]) or 0 end

  local day = math.floor(now / DAY_MS)
  if day > w.day then
    w.day, w.day_used, w.cap_day_used, w.cap_day_bulk = day, 0, 0, 0
    redis.call('HSET', use, 'day', day, 'day_used', 0, 'cap_day_used', 0, 'cap_day_bulk', 0)
    for _, one in ipairs(streams) do redis.call('HDEL', use, 'd:' .. one.name) end
    local month = month_of(day)
    if month > w.month then
      w.month, w.month_used = month, 0
      redis.call('HSET', use, 'month', month, 'month_used', 0)
    end
  end
  local bucket = math.floor(now / BUCKET_MS)
  if bucket > w.bucket then
    local first = math.max(w.bucket + 1, bucket - SLOTS + 1)
    for b = first, bucket do
      local slot = b % SLOTS
      local old = redis.call('HMGET', use, 'u' .. slot, 'b' .. slot)
      w.hour_used = w.hour_used - (tonumber(old[1]) or 0)
      w.hour_bulk = w.hour_bulk - (tonumber(old[2]) or 0)
      redis.call('HDEL', use, 'u' .. slot, 'b' .. slot)
      for _, one in ipairs(streams) do redis.call('HDEL', use, 'n' .. slot .. ':' .. one.name) end
    end
    w.bucket = bucket
    redis.call('HSET', use, 'bucket', bucket, 'hour_used', w.hour_used, 'hour_bulk', w.hour_bulk)
  end
  open_streams(use, streams)
  return w
end
