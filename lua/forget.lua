--[[
forget: a workspace has changed to `version`: drop what is held of it, and keep older copies from coming back.

Promises: after the reply no request is admitted by an older copy; the version stays as a bar for two lifetimes.

KEYS workspace_record
ARGV lives_ms:number version:number
REPLY 1
]]
local held = tonumber(redis.call('HGET', workspace_record, 'version') or 0)
if held > version then return 1 end
redis.call('DEL', workspace_record)
redis.call('HSET', workspace_record, 'version', version)
redis.call('PEXPIRE', workspace_record, 2 * lives_ms)
return 1
