-- The health of a Queue in Argo CD, from its conditions. See docs/guides/kubernetes.md.
local queue = {}
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  queue[condition.type] = condition
end

local function is(kind, status)
  local condition = queue[kind]
  return condition ~= nil and condition.status == status
      and condition.observedGeneration == obj.metadata.generation
end

local function says(status, kind)
  local condition = queue[kind] or {}
  local message = condition.message
  if message == nil or message == "" then
    message = condition.reason or "The operator has not looked at this spec yet"
  end
  return {status = status, message = message}
end

if is("Stalled", "True") then
  return says("Degraded", "Stalled")
elseif is("Ready", "True") then
  if obj.spec.suspend then
    return says("Suspended", "Ready")
  end
  return says("Healthy", "Ready")
elseif is("Reconciling", "True") then
  return says("Progressing", "Reconciling")
end
return says("Progressing", "Ready")
