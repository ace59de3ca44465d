//! The closed list of rules, each one with the word that its violations begin with.

macro_rules! rules {
    ($($variant:ident = $word:literal, $area:literal, $meaning:literal;)+) => {
        /// A rule across members. Its word begins the message of each violation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule { $(#[doc = $meaning] $variant,)+ }

        impl Rule {
            /// Every rule, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The area that it belongs to.
            pub const fn area(self) -> &'static str {
                match self { $(Self::$variant => $area,)+ }
            }

            /// What it demands.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }

            /// The rule that a word names.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

rules! {
    DuplicateId = "duplicate-id", "identity", "An ID names one thing: items, parts, tools, branches, revisions, annotations, artifacts and resources of one record share none.";
    PendingId = "pending-id", "identity", "`pending` stands only for conversation and branch, for both of them, and only in requests and in what `convert` and `fold` print.";
    UnknownReference = "unknown-reference", "identity", "What a record refers to is in it: items, parts, tools, branches, artifacts, annotations. References into history that the record does not hold are free.";
    OtherConversation = "other-conversation", "identity", "Everything in one record belongs to one conversation.";

    Sequence = "sequence", "order", "Sequences rise along a path; a complete path counts 1, 2, 3 from its root, a fork goes on from its fork item.";
    Parent = "parent", "order", "`parentId`, where given, is the item before on the path; the first item has none.";
    BranchPath = "branch-path", "order", "A path goes through its branches one after the other and never back.";
    BranchHead = "branch-head", "order", "A head is the last item of its path, with its sequence; a branch without items has none and 0.";
    BranchFork = "branch-fork", "order", "A fork names its parent branch and an item on the parent's path; forks form no circle.";

    MessageRole = "message-role", "items", "A message has a role.";
    Placement = "placement", "items", "`placement` stands on system and developer messages only.";
    PartKind = "part-kind", "items", "Reasoning parts stand in reasoning items, and nothing else does; searches find grounding sources.";
    ItemStatus = "item-status", "items", "An item in progress stands only in a running operation, or is the prefill of a request.";
    LifecycleStatus = "lifecycle-status", "items", "A call whose arguments are being written is in progress.";
    CallId = "call-id", "items", "Call and approval IDs have 1 to 512 bytes and no control characters.";
    CallName = "call-name", "items", "A call names its tool; the call of a hosted tool names its type.";
    CallInput = "call-input", "items", "`input` stands only beside argument text that is JSON.";
    CallOpen = "call-open", "items", "A call ID is used again only after its call has a result.";
    ResultWithoutCall = "result-without-call", "items", "A result follows its call, as far as the history goes.";
    SecondResult = "second-result", "items", "A call has one result.";
    ResultKind = "result-kind", "items", "A result is of the kind that belongs to its call.";
    ResultError = "result-error", "items", "A result with an error does not say that there was none.";
    Approval = "approval", "items", "An approval is asked once and answered once, in this order.";
    ComputerAction = "computer-action", "items", "Each computer action is an object with the member `action`.";
    OpenCalls = "open-calls", "items", "An interruption lists calls that have no result.";
    SyntheticOrigin = "synthetic-origin", "items", "What is marked synthetic was made by the engine.";
    CompactionRange = "compaction-range", "items", "A summary covers a contiguous prefix of its path: from the first item on, as many as it counts, all before itself. One that counts none names itself and stands for what is missing.";
    AuditHash = "audit-hash", "items", "The audit hash of a summary is that of the items that it covers.";
    AlwaysTrue = "always-true", "items", "A member that says only `true` is absent otherwise.";

    PartDepth = "part-depth", "parts", "Parts nest at most 16 levels.";
    InlineData = "inline-data", "parts", "Inline data is valid in its encoding; `bytes` is standard base64 with padding.";
    MediaType = "media-type", "parts", "A media type is `type/subtype` with optional parameters.";
    MediaFacts = "media-facts", "parts", "Size and digest are those of the data.";
    Range = "range", "parts", "Ranges, spans, pages and times do not end before they begin.";
    ReasoningState = "reasoning-state", "parts", "Reasoning that is omitted or redacted has no text.";
    Url = "url", "parts", "An address is not empty, has no spaces or control characters, and carries no user name or password.";

    Number = "number", "numbers", "Numbers are finite, whole numbers lie within ±(2^53-1), and each lies in its range.";
    Bound = "bound", "numbers", "Texts and lists keep their bounds.";

    ToolName = "tool-name", "tools", "Function and custom tools have a name, and no two of them the same.";
    ToolConfig = "tool-config", "tools", "`config` has only the members of its kind of tool; the address of an MCP server has no user name and no query.";
    ToolSchema = "tool-schema", "tools", "Schemas are JSON objects; a grammar stands on custom tools.";
    ToolResources = "tool-resources", "tools", "A tool that needs a resource of one owner is `owner-bound`.";
    ToolChoice = "tool-choice", "tools", "`tool` stands with `named`, `mode` and `tools` with `allowed`, nothing with the others; selectors name tools of the request.";

    Missing = "missing", "conversation", "A partial history declares what is missing, a complete one has nothing missing; every gap is declared.";
    Completeness = "completeness", "conversation", "A history that is only a reference names the state that it refers to; a complete one needs none.";
    Continuation = "continuation", "conversation", "Responses, conversations, interactions and sessions stand in `continuations`, everything else in `state.resources`.";
    Prefill = "prefill", "request", "The prefill is the last item, of the assistant, and in progress.";
    CacheTtl = "cache-ttl", "request", "One place has one life of its cache entry.";
    AffinityKey = "affinity-key", "request", "A provider's name of something is no affinity key.";
    Metadata = "metadata", "request", "At most 64 labels, keys up to 64 and values up to 512 characters; `endUserRef` up to 1,024.";

    FinishReason = "finish-reason", "result", "State and finish reason belong together; an open call of the client gives `tool-calls`, an unanswered approval `requires-action`.";
    Alternatives = "alternatives", "result", "Alternatives are numbered from 1, each once.";
    LossDisposition = "loss-disposition", "result", "The disposition of a loss report is that of its worst entry.";
    Portability = "portability", "result", "A decision other than `portable` has reasons.";
    ErrorCode = "error-code", "result", "The code of an error is `category.detail` of its own category.";
    ErrorText = "error-text", "result", "The message of an error has at most 1,024 characters and no control characters.";
    Pointer = "pointer", "result", "A place is written as a JSON Pointer.";
    UsageSum = "usage-sum", "result", "Totals are the sums of their summands when all are known and of one scope; a part is not larger than its whole, unless the provider itself reported both.";
    UsageScope = "usage-scope", "result", "The top level of usage holds the narrowest scope; wider ones stand in `others`, which does not nest.";

    EventId = "event-id", "events", "The ID of an event is derived from operation and sequence.";
    EventOrder = "event-order", "events", "Sequences of a log are 1, 2, 3 without a gap; a duplicate is the same event; a heartbeat repeats the last number.";
    EventEnd = "event-end", "events", "One terminal event, then `stream.completed`, then nothing.";
    EventSubject = "event-subject", "events", "An event names the item, part and call that it is about; the first candidate is not named.";
    EventFold = "event-fold", "events", "An event fits what was folded before it.";
    EventItems = "event-items", "events", "`stream.completed` names the items of the answer in order.";
    Transition = "transition", "events", "States change along their tables (items, calls, operations, checkpoints).";

    OperationTimes = "operation-times", "operation", "Times follow one another: created, started, ended; nothing was updated before it was made.";
    OperationEnd = "operation-end", "operation", "An ended operation has an end time, a completed one a result, a failed one an error, and no lease; one that goes on has neither end nor error.";
    OperationJob = "operation-job", "operation", "Polling and webhook belong to a provider job, which belongs to the owner.";
    OperationLoss = "operation-loss", "operation", "With an error-level loss nothing runs.";
    Owner = "owner", "operation", "The fingerprints of an owner have their shapes: never a credential.";
    Identity = "identity", "operation", "What a record is and whose it is never changes.";
    Checkpoint = "checkpoint", "checkpoint", "A checkpoint has a sealed payload and ends after it began.";

    SchemaName = "schema-name", "annotations", "A schema is named `<name>@<version>`.";
    AnnotationSize = "annotation-size", "annotations", "An annotation keeps the size bound of its schema; 64 KiB when the schema is not known.";
    AnnotationShape = "annotation-shape", "annotations", "An annotation has exactly the shape that its schema describes.";
    AnnotationScope = "annotation-scope", "annotations", "A schema is used in the scope that it is registered for, and by its own family.";

    RevisionNumber = "revision-number", "export", "Revisions of an item are numbered from 1 without a gap.";
    RevisionChange = "revision-change", "export", "A revision changes something that its kind of item has.";
    Fingerprint = "fingerprint", "export", "The fingerprint of a bundle is that of the rest of it.";
    Artifact = "artifact", "export", "A reference to an artifact has the artifact's digest.";

    TransportForm = "transport-form", "transport", "Method, path and header values have the form of safe metadata: no query, no free header, placeholders in paths.";
    Secret = "secret", "secrets", "No credential in texts of transport, metadata, errors, annotations and names.";
    Unlisted = "unlisted", "report", "Beyond 10,000 violations only their number is told.";
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The page `docs/rules.md`.
pub fn rules_page() -> String {
    let mut page = String::from(
        "# Rules\n\n<!-- Generated from `throughline_format::validate::Rule`. Do not edit. -->\n\nRules across members that `throughline validate` checks. \
         Each violation has the code `invalid-request.validation`, a JSON Pointer,\nand a message that begins with the word of the rule.\n",
    );
    let mut area = "";
    for rule in Rule::ALL {
        if rule.area() != area {
            area = rule.area();
            page.push_str("\n## ");
            page.push_str(area);
            page.push_str("\n\n| rule | demands |\n| --- | --- |\n");
        }
        page.push_str("| `");
        page.push_str(rule.as_str());
        page.push_str("` | ");
        page.push_str(&rule.meaning().replace('|', "\\|"));
        page.push_str(" |\n");
    }
    page
}
