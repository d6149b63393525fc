--[[
suspend: the workspace is suspended from the next request on, whatever copies of up to `version` say.

Promises: a copy of the record that was read before the suspension was written does not end it.

KEYS workspace_record
ARGV lives_ms:number version:number
REPLY 1
]]
redis.call('HSET', workspace_record, 'suspended', '1', 'marked', version)
redis.call('PEXPIRE', workspace_record, lives_ms)
return 1
