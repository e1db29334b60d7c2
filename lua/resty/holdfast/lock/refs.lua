-- Lua values under numbers, for finalisers: a finaliser gets only its cdata, which can hold a number. Free numbers form
-- a list from memo[FREE_LIST_REF]; 0 or nil ends it.

local FREE_LIST_REF = 0
local memo = {}

local _M = { memo = memo }


function _M.ref_obj(obj)
    if obj == nil then
        return -1
    end
    local ref = memo[FREE_LIST_REF]
    if ref and ref ~= 0 then
        memo[FREE_LIST_REF] = memo[ref]
    else
        ref = #memo + 1
    end
    memo[ref] = obj
    return ref
end


function _M.unref_obj(ref)
    if ref >= 0 then
        memo[ref] = memo[FREE_LIST_REF]
        memo[FREE_LIST_REF] = ref
    end
end


return _M
