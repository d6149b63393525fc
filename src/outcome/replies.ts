/**
 * What receivers say and what they mean by it: data only, each line with its source. How it is weighed stands in verdict.ts.
 *
 * A phrase is matched word by word against the reply in lower case, without accents, punctuation, apostrophes and host
 * names. `@` stands for any e-mail address, `..` for up to five words, `word*` for any ending, `(a|b)` for either.
 */

export type Reason =
  /** Nobody is there. */
  | "user_unknown"
  | "user_moved"
  | "mailbox_disabled"
  | "domain_unknown"
  | "no_mail"
  /** Somebody is there, or may be. */
  | "mailbox_inactive"
  | "mailbox_full"
  | "rate_limited"
  | "greylisted"
  | "blocked"
  | "policy"
  | "authentication"
  | "sender"
  | "spam"
  | "content"
  | "too_big"
  | "relay"
  | "network"
  | "system"
  | "protocol"
  | "expired"
  | "unknown";

/** A receiver is recognised by the host that answered. */
export const RECEIVERS = {
  microsoft365: ["protection.outlook.com", "mx.microsoft"],
  outlook: ["olc.protection.outlook.com", "hotmail.com", "outlook.com", "live.com", "msn.com"],
  google: ["google.com", "googlemail.com"],
  yahoo: ["yahoodns.net", "yahoo.com", "aol.com"],
  icloud: ["icloud.com", "apple.com"],
  gmx: ["gmx.net", "gmx.com", "web.de", "kundenserver.de", "1and1.com", "ionos.com", "mail.com"],
  mailru: ["mail.ru"],
  yandex: ["yandex.ru", "yandex.net", "yandex.com"],
  tencent: ["qq.com", "exmail.qq.com"],
  netease: ["163.com", "126.com", "netease.com", "yeah.net"],
  godaddy: ["secureserver.net"],
  proofpoint: ["pphosted.com", "ppe-hosted.com"],
  mimecast: ["mimecast.com", "mimecast.co.za"],
  barracuda: ["barracudanetworks.com", "ess.barracuda.com"],
  cisco: ["iphmx.com"],
  docomo: ["docomo.ne.jp"],
} as const;
export type Receiver = keyof typeof RECEIVERS;

/** Everything named must hold; the first rule that does decides. */
export type ReceiverRule = {
  /** For readers. With `isFrom` the host that answered must be theirs, since the words alone are common. */
  receiver:
    | Receiver
    | "qmail"
    | "exim"
    | "postfix"
    | "exchange"
    | "zimbra"
    | "comcast"
    | "cox"
    | "orange"
    | "t-online";
  isFrom?: true;
  /** It was said of the whole mail, after DATA. */
  isAfterMail?: true;
  /** RFC 3463 without its class, whatever the class. */
  detail?: string;
  /** Literally somewhere in the reply, in lower case. */
  literal?: string;
  phrase?: string;
  reason: Reason;
  source: string;
};

const MICROSOFT_NDR =
  "learn.microsoft.com/exchange/mail-flow-best-practices/non-delivery-reports-in-exchange-online";
const OUTLOOK_POSTMASTER = "sendersupport.olc.protection.outlook.com/pm/troubleshooting.aspx";
const GOOGLE_ERRORS = "support.google.com/a/answer/3726730";
const YAHOO_ERRORS = "senders.yahooinc.com/smtp-error-codes";
const GMX_ERRORS = "postmaster.gmx.net/en/error-messages";
const GODADDY_ERRORS = "godaddy.com/help/what-does-my-email-bounceback-mean-3568";
const MIMECAST_ERRORS = "community.mimecast.com: Mimecast SMTP error codes";
const QQ_ERRORS = "service.mail.qq.com/detail/122";
const NETEASE_ERRORS = "help.163.com: codes of returned mail";

export const RECEIVER_RULES: readonly ReceiverRule[] = [
  // Microsoft 365, Exchange
  {
    receiver: "microsoft365",
    detail: "4.1",
    phrase: "recipient address rejected access denied",
    reason: "user_unknown",
    source: `${MICROSOFT_NDR}: 5.4.1, directory-based edge blocking`,
  },
  { receiver: "microsoft365", literal: "resolver.adr.recip", reason: "user_unknown", source: MICROSOFT_NDR },
  { receiver: "exchange", literal: "resolver.adr.exrecip", reason: "user_unknown", source: MICROSOFT_NDR },
  { receiver: "exchange", literal: "resolver.adr.bad", reason: "user_unknown", source: MICROSOFT_NDR },
  { receiver: "exchange", literal: "resolver.rst.", reason: "policy", source: MICROSOFT_NDR },
  { receiver: "exchange", literal: "resolver.grp", reason: "policy", source: MICROSOFT_NDR },
  {
    receiver: "exchange",
    literal: "quotaexceededexception",
    reason: "mailbox_full",
    source: MICROSOFT_NDR,
  },
  { receiver: "exchange", literal: "submissionquota", reason: "rate_limited", source: MICROSOFT_NDR },
  { receiver: "exchange", literal: "mailboxdisabled", reason: "mailbox_inactive", source: MICROSOFT_NDR },
  { receiver: "exchange", literal: "accountdisabled", reason: "mailbox_inactive", source: MICROSOFT_NDR },
  { receiver: "microsoft365", detail: "1.90", reason: "rate_limited", source: MICROSOFT_NDR },
  { receiver: "microsoft365", detail: "2.121", reason: "rate_limited", source: MICROSOFT_NDR },
  { receiver: "microsoft365", detail: "2.122", reason: "rate_limited", source: MICROSOFT_NDR },
  { receiver: "microsoft365", detail: "4.310", reason: "domain_unknown", source: MICROSOFT_NDR },
  {
    receiver: "microsoft365",
    detail: "4.4",
    phrase: "invalid domain",
    reason: "domain_unknown",
    source: MICROSOFT_NDR,
  },
  { receiver: "microsoft365", detail: "4.316", reason: "expired", source: MICROSOFT_NDR },
  {
    receiver: "outlook",
    isFrom: true,
    phrase: "requested action not taken mailbox unavailable",
    reason: "user_unknown",
    source: OUTLOOK_POSTMASTER,
  },
  {
    receiver: "outlook",
    detail: "5.0",
    phrase: "requested action not taken mailbox unavailable",
    reason: "user_unknown",
    source: OUTLOOK_POSTMASTER,
  },
  { receiver: "outlook", phrase: "block list s3(1|)(4|5)0", reason: "blocked", source: OUTLOOK_POSTMASTER },
  // Gmail
  {
    receiver: "google",
    literal: "support.google.com/mail/?p=nosuchuser",
    reason: "user_unknown",
    source: GOOGLE_ERRORS,
  },
  {
    receiver: "google",
    literal: "support.google.com/mail/?p=disableduser",
    reason: "mailbox_disabled",
    source: GOOGLE_ERRORS,
  },
  { receiver: "google", literal: "?p=overquota", reason: "mailbox_full", source: GOOGLE_ERRORS },
  { receiver: "google", literal: "?p=receivingrate", reason: "rate_limited", source: GOOGLE_ERRORS },
  {
    receiver: "google",
    phrase: "receiving mail (at a rate|too quickly)",
    reason: "rate_limited",
    source: GOOGLE_ERRORS,
  },
  // Yahoo and AOL
  { receiver: "yahoo", literal: "(554.30)", reason: "mailbox_disabled", source: YAHOO_ERRORS },
  {
    receiver: "yahoo",
    phrase: "delivery error dd .. (user|address) doesnt have",
    reason: "user_unknown",
    source: YAHOO_ERRORS,
  },
  {
    receiver: "yahoo",
    phrase: "delivery error dd not a valid recipient",
    reason: "user_unknown",
    source: YAHOO_ERRORS,
  },
  {
    receiver: "yahoo",
    phrase: "not accepted for policy reasons",
    reason: "policy",
    source: YAHOO_ERRORS,
  },
  { receiver: "yahoo", literal: "[ts0", reason: "rate_limited", source: YAHOO_ERRORS },
  { receiver: "yahoo", literal: "[tss0", reason: "rate_limited", source: YAHOO_ERRORS },
  { receiver: "yahoo", literal: "[bl2", reason: "blocked", source: YAHOO_ERRORS },
  {
    receiver: "yahoo",
    phrase: "will not accept delivery of this message",
    reason: "blocked",
    source: "postmaster.aol.com: error codes",
  },
  // iCloud
  { receiver: "icloud", literal: "[cs01]", reason: "policy", source: "observed: iCloud Mail" },
  { receiver: "icloud", literal: "[hm08]", reason: "policy", source: "observed: iCloud Mail" },
  {
    receiver: "icloud",
    isFrom: true,
    phrase: "user does not exist",
    reason: "user_unknown",
    source: "observed: iCloud Mail",
  },
  // GMX, Web.de, IONOS
  {
    receiver: "gmx",
    isFrom: true,
    phrase: "requested action not taken mailbox unavailable",
    reason: "user_unknown",
    source: GMX_ERRORS,
  },
  {
    receiver: "gmx",
    literal: "for explanation visit http",
    phrase: "requested action not taken mailbox unavailable",
    reason: "user_unknown",
    source: GMX_ERRORS,
  },
  {
    receiver: "gmx",
    phrase: "transaction failed .. reject due to policy",
    reason: "policy",
    source: GMX_ERRORS,
  },
  {
    receiver: "gmx",
    phrase: "nemesis esmtp service not available",
    reason: "blocked",
    source: GMX_ERRORS,
  },
  // Mail.ru
  {
    receiver: "mailru",
    phrase: "local mailbox .. account is disabled",
    reason: "mailbox_inactive",
    source: "help.mail.ru: non-delivery messages",
  },
  {
    receiver: "mailru",
    phrase: "message was not accepted invalid mailbox",
    reason: "user_unknown",
    source: "help.mail.ru: non-delivery messages",
  },
  {
    receiver: "mailru",
    isFrom: true,
    phrase: "user not found",
    reason: "user_unknown",
    source: "help.mail.ru: non-delivery messages",
  },
  {
    receiver: "mailru",
    phrase: "spam message rejected",
    reason: "spam",
    source: "help.mail.ru: non-delivery messages",
  },
  {
    receiver: "mailru",
    phrase: "account is inactive",
    reason: "mailbox_inactive",
    source: "help.mail.ru: non-delivery messages",
  },
  // Yandex
  {
    receiver: "yandex",
    detail: "7.1",
    phrase: "no such user",
    reason: "user_unknown",
    source: "observed: Yandex; yandex.com/support/mail: SMTP errors",
  },
  {
    receiver: "yandex",
    phrase: "policy rejection on the target address",
    reason: "policy",
    source: "yandex.com/support/mail: SMTP errors",
  },
  {
    receiver: "yandex",
    phrase: "message rejected under suspicion of spam",
    reason: "spam",
    source: "yandex.com/support/mail: SMTP errors",
  },
  // QQ and NetEase
  {
    receiver: "tencent",
    phrase: "mailbox unavailable or access denied",
    reason: "mailbox_inactive",
    source: QQ_ERRORS,
  },
  {
    receiver: "tencent",
    phrase: "domain may not exist or dns check failed",
    reason: "sender",
    source: `${QQ_ERRORS}: of the sender's domain`,
  },
  { receiver: "tencent", phrase: "mailbox not found", reason: "user_unknown", source: QQ_ERRORS },
  {
    receiver: "tencent",
    phrase: "connection (frequency limited|denied)",
    reason: "rate_limited",
    source: QQ_ERRORS,
  },
  { receiver: "tencent", phrase: "(ip|domain) frequency limited", reason: "rate_limited", source: QQ_ERRORS },
  {
    receiver: "tencent",
    phrase: "suspected bounce attacks",
    reason: "blocked",
    source: QQ_ERRORS,
  },
  { receiver: "tencent", phrase: "mail content denied", reason: "spam", source: QQ_ERRORS },
  { receiver: "netease", literal: "dt:spm", reason: "spam", source: NETEASE_ERRORS },
  { receiver: "netease", literal: "mi:spb", reason: "blocked", source: NETEASE_ERRORS },
  { receiver: "netease", literal: "mi:dmc", reason: "authentication", source: NETEASE_ERRORS },
  { receiver: "netease", literal: "rp:qrc", reason: "rate_limited", source: NETEASE_ERRORS },
  { receiver: "netease", literal: "rp:cel", reason: "rate_limited", source: NETEASE_ERRORS },
  { receiver: "netease", literal: "user not found", reason: "user_unknown", source: NETEASE_ERRORS },
  // GoDaddy: the code at the end of the line says what the number in front does not
  { receiver: "godaddy", phrase: "ib(504|510|607)", reason: "rate_limited", source: GODADDY_ERRORS },
  { receiver: "godaddy", phrase: "ib(1*|007)", reason: "blocked", source: GODADDY_ERRORS },
  { receiver: "godaddy", phrase: "ib(212|705)", reason: "spam", source: GODADDY_ERRORS },
  { receiver: "godaddy", phrase: "ib(401|5*)", reason: "sender", source: GODADDY_ERRORS },
  {
    receiver: "godaddy",
    phrase: "too many recipients this hour",
    reason: "rate_limited",
    source: GODADDY_ERRORS,
  },
  {
    receiver: "godaddy",
    phrase: "account storage limit",
    reason: "mailbox_full",
    source: GODADDY_ERRORS,
  },
  // Filters in front of others
  {
    receiver: "proofpoint",
    literal: "ipcheck.proofpoint.com",
    reason: "blocked",
    source: "Proofpoint dynamic reputation: ipcheck.proofpoint.com",
  },
  {
    receiver: "proofpoint",
    phrase: "(blocked|rejected) by proofpoint",
    reason: "blocked",
    source: "observed: Proofpoint",
  },
  {
    receiver: "mimecast",
    phrase: "invalid recipient",
    isFrom: true,
    reason: "user_unknown",
    source: MIMECAST_ERRORS,
  },
  {
    receiver: "mimecast",
    phrase: "administrative prohibition",
    reason: "policy",
    source: MIMECAST_ERRORS,
  },
  {
    receiver: "mimecast",
    phrase: "rejected by header based",
    reason: "policy",
    source: MIMECAST_ERRORS,
  },
  {
    receiver: "barracuda",
    literal: "barracudacentral.org",
    reason: "blocked",
    source: "barracudacentral.org/rbl",
  },
  {
    receiver: "barracuda",
    phrase: "permanent failure for one or more recipients .. blocked",
    reason: "blocked",
    source: "observed: Barracuda",
  },
  {
    receiver: "cisco",
    phrase: "poor reputation",
    reason: "blocked",
    source: "Cisco Secure Email: SenderBase rejection",
  },
  {
    receiver: "cisco",
    literal: "#5.1.0 address rejected",
    reason: "user_unknown",
    source: "Cisco Secure Email: the words of a recipient that the directory does not know",
  },
  // Mail servers
  {
    receiver: "qmail",
    phrase: "sorry no mailbox here by that name",
    reason: "user_unknown",
    source: "qmail-local, qmail-smtpd with recipient checks",
  },
  {
    receiver: "qmail",
    phrase: "sorry that domain isnt in my list of allowed rcpthosts",
    reason: "relay",
    source: "qmail-smtpd",
  },
  {
    receiver: "qmail",
    phrase: "sorry i couldnt find any host",
    reason: "domain_unknown",
    source: "qmail-remote",
  },
  {
    receiver: "qmail",
    phrase: "your envelope sender is in my bad*",
    reason: "sender",
    source: "qmail-smtpd",
  },
  {
    receiver: "exim",
    phrase: "unrout*able address",
    reason: "user_unknown",
    source: "Exim: the default words of a router that declines",
  },
  {
    receiver: "exim",
    phrase: "all relevant mx records point to non existent hosts",
    reason: "domain_unknown",
    source: "Exim: dnslookup router",
  },
  {
    receiver: "exim",
    phrase: "retry timeout exceeded",
    reason: "expired",
    source: "Exim: retry rules",
  },
  {
    receiver: "postfix",
    phrase: "recipient address rejected (user unknown|undeliverable address .. unknown)",
    reason: "user_unknown",
    source: "Postfix: smtpd_reject_unlisted_recipient, address verification",
  },
  {
    receiver: "postfix",
    phrase: "recipient address rejected unverified address",
    reason: "system",
    source: "Postfix ADDRESS_VERIFICATION_README: the probe has no answer yet, or a temporary one",
  },
  {
    receiver: "qmail",
    literal: "user does not exist, but will deliver to",
    reason: "system",
    source: "vdelivermail of vpopmail: the mailbox for everybody could not be written",
  },
  {
    receiver: "zimbra",
    phrase: "account .. (status|is) (maintenance|locked)",
    reason: "mailbox_inactive",
    source: "Zimbra LMTP: account status",
  },
  {
    receiver: "comcast",
    detail: "1.1",
    phrase: "not our customer",
    reason: "user_unknown",
    source: "postmaster.comcast.net: error codes",
  },
  {
    receiver: "cox",
    literal: "cox.net> recipient rejected",
    reason: "user_unknown",
    source: "postmaster.cox.net: the intended recipient is no valid Cox account",
  },
  {
    receiver: "docomo",
    isFrom: true,
    isAfterMail: true,
    phrase: "unknown user",
    reason: "policy",
    source: "observed: docomo calls its user unknown after DATA when the user's filter refuses the sender",
  },
  {
    receiver: "comcast",
    phrase: "error code .. bl0*",
    reason: "blocked",
    source: "postmaster.comcast.net: error codes",
  },
  {
    receiver: "t-online",
    literal: "ip=",
    phrase: "a problem occurred ask your postmaster",
    reason: "blocked",
    source: "postmaster.t-online.de: error messages",
  },
  { receiver: "orange", phrase: "ofr ?(004|005)*", reason: "rate_limited", source: "postmaster.orange.fr" },
  { receiver: "orange", phrase: "ofr ?(506|999)*", reason: "spam", source: "postmaster.orange.fr" },
];

/** Named in a reply only by who blocks. Source: the lists themselves. */
export const BLOCKLIST_SITES: readonly string[] = [
  "spamhaus",
  "spamcop",
  "barracudacentral",
  "sorbs.net",
  "uceprotect",
  "abuseat.org",
  "senderbase",
  "senderscore",
  "talosintelligence",
  "mailspike",
  "invaluement",
  "surbl.org",
  "uribl.com",
  "spamrl.com",
  "spameatingmonkey",
  "psbl.org",
  "surriel",
  "dnsbl",
  "rbl.",
  ".rbl",
  "backscatterer",
  "gbudb",
  "junkemailfilter",
  "csi.cloudmark",
  "ipremoval.sms.symantec",
  "sender.office.com",
  "delist@",
  "spamrats",
  "abusix",
  "trendmicro.com/reputation",
  "mxrate",
];

export type PhraseGroup = { reason: Reason; source: string; phrases: readonly string[] };

/** These overrule a hard code, and words of a missing mailbox as well. In this order. */
export const LIVING_SURELY: readonly PhraseGroup[] = [
  {
    reason: "greylisted",
    source: "Postgrey, milter-greylist, SQLgrey, Exim; translations observed",
    phrases: [
      "(grey|gray)*list*",
      "(grey|gray) list*",
      "not yet authorized to deliver",
      "temporarily deferred",
      "灰名单",
    ],
  },
  {
    reason: "mailbox_full",
    source: "RFC 5321 552, RFC 3463 X.2.2, Dovecot, Cyrus, Exchange, Zimbra; translations observed",
    phrases: [
      "(over|exceed*|full|insufficient|out of|no more|not enough) .. (quota|storage|disk space)",
      "(quota|storage|disk space) .. (exceed*|full|exhausted|reached|over|limit|allocation)",
      "overquota*",
      "(mailbox|inbox|mail box|box|account|maildir|mail folder) .. (full|too full|size limit|too large|exceed*|over limit)",
      "exceed* .. (mailbox|mail box|message store|inbox)",
      "(no|not enough|insufficient|out of|no more|lack of) .. (room|space)",
      "(recipient|recipients|mailbox|account) .. over .. limit",
      "(已满|已滿|満杯)",
      "full (mailbox|inbox)",
      "mail file .. limit",
      "mailbox .. (no space|not enough space)",
      "user has (too many messages|no space)",
      "(too much|has too much) mail",
      "(postfach|mailbox) .. (voll|uberfullt)",
      "(speicherplatz|quota|kontingent) .. (uberschritten|erschopft|voll)",
      "boite .. pleine",
      "quota .. (depasse|atteint|superad*|excedid*|ultrapassad*|esaurit*|superat*)",
      "(depassement|dépasse) .. quota",
      "(buzon|casilla|cuota) .. (llen*|excedid*)",
      "casella .. piena",
      "caixa .. (cheia|lotada)",
      "ящик .. переполнен*",
      "(превышен*|переполнен*) .. (квот*|ящик*|лимит*)",
      "квот* .. (превышен*|исчерпан*)",
      "скринька .. переповнен*",
      "(mailbox|postbus|brievenbus) .. vol",
      "(skrzynk*|konto) .. (pełn*|przepełnion*)",
      "schrank* .. (pln*|preplnen*)",
      "(kutusu|kutunuz) .. dolu",
      "(brevlada*|postlada*|postboks*|postkasse*|indbakke*|innboks*) .. (full|fuld|overfull)",
      "postilaatik* .. (taynna|taysi)",
      "(postafiok|postalada) .. (megtelt|tele)",
      "(사서함*|메일함*|편지함*) .. (가득|초과)*",
      "(邮箱|信箱|空间|容量)已满",
      "(邮箱|信箱|空間|容量)已滿",
      "超出配额",
      "配额已满",
      "空间不足",
      "容量超過",
      "メールボックスが(一杯|いっぱい)",
      "容量を超え",
    ],
  },
  {
    reason: "rate_limited",
    source:
      "RFC 4468 words, Google, Yahoo, Microsoft, QQ, NetEase, Orange, Postfix anvil; translations observed",
    phrases: [
      "rate (limit*|control*|exceeded|throttl*|is too)",
      "(at a rate|sending rate|rate that|delivery rate|message rate|mail rate)",
      "ratelimit*",
      "throttl*",
      "too (fast|quickly|frequent*)",
      "slow down",
      "(limit|limits|threshold) .. (exceed*|reached|hit)",
      "(exceed*|reached|over) .. (limit*|threshold)",
      "too many .. (connection*|message*|session*|email*|e mail*|mail|mails|recipient*|request*|attempt*|error*|invalid)",
      "too much .. traffic",
      "(exceed*|reached|over) .. (limit*|threshold|maximum number) .. (hour|day|minute|per|messages|connections|recipients|mails|emails|sending|rate)",
      "(hourly|daily|sending|message|messages|mail|submission|connection) .. (quota|limit|limits) .. (exceed*|reached|is over)",
      "(exceed*|reached) .. (hourly|daily|sending|connection|submission|message) (quota|limit*)",
      "(messages|mails|emails|recipients|connections) per (hour|day|minute|second|session|connection)",
      "(this|last|past|one) (hour|minute)",
      "frequency limit*",
      "temporarily rate limited",
      "excessive .. (mail|volume|connections|traffic)",
      "volume of (mail|email|messages)",
      "unusual rate",
      "zu (viele|schnell) .. (nachrichten|mails|e mails|verbindungen|empfanger)",
      "trop (de|vite) .. (connexions|messages|mails|destinataires|requetes)",
      "(demasiad*|muchos) .. (mensajes|conexiones|correos|destinatarios)",
      "troppi .. (messaggi|connessioni|destinatari)",
      "troppe connessioni",
      "(muitas|demasiadas) .. (mensagens|conexoes)",
      "слишком (много|часто)",
      "превышен* .. (лимит|частот*)",
      "频率",
      "频繁",
      "頻繁",
      "超过限制",
      "超出限制",
      "sending limit",
    ],
  },
  {
    reason: "blocked",
    source:
      "replies that name a list of senders or addresses: Postfix reject_rbl_client, Exim dnslists, Microsoft, Cisco",
    phrases: [
      "block*list*",
      "black*list*",
      "(block|black|deny|reject|ban) list*",
      "(blocked|banned|barred) (by|using|at|in|on|from|for|sender|ip)",
      "(is|are|been|was|currently|host|ip|address) listed (in|on|by|at)",
      "(or|been|was|is|are) (blocked|banned|blacklisted|barred)",
      "(host|ip|address|sender|server|domain|network|connection|client|mail|message|email) .. (blocked|banned|barred)",
      "blocked .. (recipient|sender|user|policy)",
      "(has|have) (blocked|banned)",
      "blocked you",
      "封禁",
      "(r|dns)bl",
      "(poor|bad|low|no|negative|insufficient|ip|domain|sender) reputation",
      "reputation .. (poor|low|bad|score|too)",
      "banned (sending|sender|ip|host)",
      "(gesperrt|blockiert) .. (absender|ip|host|server)",
      "(absender|ip|host|server) .. (gesperrt|blockiert|abgelehnt)",
      "liste noire",
      "lista (negra|nera)",
      "черн* спис*",
      "заблокирован*",
      "黑名单",
      "黑名單",
      "ブラックリスト",
    ],
  },
  {
    reason: "spam",
    source: "words of content filters: Google, Mail.ru, Yandex, NetEase, SpamAssassin; translations observed",
    phrases: [
      "(as|is|be|for|looks like|likely|suspected|possible|considered|contains|identified as|detected as|classified as|classed as|of|unsolicited) (spam|junk|unsolicited|ube|uce)",
      "spam (message|content|detected|score|mail|rejected|suspected|filter|like|policy|engine)",
      "antispam",
      "anti spam",
      "unsolicited (mail|email|bulk|message)",
      "(phishing|virus|malware|trojan|worm) ",
      "(infected|virus)",
      "(content|message) .. (rejected|blocked|denied|refused) .. (content|filter)",
      "spamverdacht",
      "спам*",
      "垃圾",
      "迷惑メール",
    ],
  },
  {
    reason: "authentication",
    source: "RFC 7372, RFC 7489, Google, Yahoo, Microsoft bulk sender rules",
    phrases: [
      "(spf|dkim|dmarc|arc|domainkeys) ",
      "sender policy framework",
      "(unauthenticated|not authenticated|unsigned) (email|mail|sender|message)",
      "(reverse dns|rdns|ptr|reverse hostname|reverse lookup|reverse host) ",
      "(cannot|could not|can not) find your (reverse )?hostname",
      "(no|valid|missing|without) (reverse|ptr)",
      "cannot resolve your",
      "(helo|ehlo)",
    ],
  },
  {
    reason: "sender",
    source: "Postfix reject_unknown_sender_domain, Exim sender verification, callouts, Sendmail check_mail",
    phrases: [
      "sender (is )?not (in|on) ",
      "sender (address|domain|email|e mail|id|ip|host|hostname|server)",
      "(sender|originator|originating|from|return path|return|reply to|envelope from|mail from|your) address .. (rejected|invalid|unknown|not|denied|does|doesnt|is|must|unresolvable|refused)",
      "(unknown|invalid|bad|unauthorized|unverified|unresolvable|forged|illegal|spoofed) (sender|originator|from|return path|envelope sender)",
      "sender .. (rejected|denied|invalid|unknown|not (allowed|found|authorized|permitted|verified)|does not exist|doesnt exist|verif*|unverif*|refused|must|callback|callout|mismatch)",
      "(verify|verification|verifying|verified) .. sender",
      "callout",
      "callback (check|verification|failed|lookup)",
      "domain of sender",
      "valid sender",
      "address in from",
      "verification failed for",
      "senders (address|domain|host|server|email|e mail|mailbox)",
      "(envelope|mail) from .. (domain|address|invalid|unknown|does|doesnt|rejected|not|must|denied)",
      "your (email |e mail |mail |)(domain|host|hostname|address|server|ip|name|sender) .. (does|doesnt|is|isnt|was|has|not|unknown|invalid|rejected|blocked|must)",
      "from (header|field|domain)",
      "in reply to mail from",
      "(client host|connection|connecting host) .. (rejected|refused|denied)",
      "absenderadresse",
      "absender .. (abgelehnt|unbekannt|ungultig)",
      "(expediteur|emetteur|remitente|remetente|mittente) .. (invalid*|inconnu*|desconocid*|desconhecid*|sconosciut*|rejet*|rechazad*|rifiutat*|rejeitad*|refuse)",
      "отправител*",
      "发件人",
      "寄件",
      "送信者",
    ],
  },
  {
    reason: "policy",
    source: "Exchange, Postfix policy servers, Yahoo, GMX, Proofpoint",
    phrases: [
      "(policy|policies) (reasons|restrict*|violation|rejection|reject*|reason|prohibit*|refus*|block*|filter)",
    ],
  },
  {
    reason: "relay",
    source: "Postfix, Exim, Sendmail, qmail, Exchange: open-relay refusals",
    phrases: [
      "relay* .. (denied|not|prohibited|refused|rejected|forbidden|disabled|blocked|access)",
      "(unable|not|cannot|cant|wont|refus*|no|dont|denied|open) .. relay*",
      "rcpthosts",
      "must (authenticate|log in|login|be authenticated)",
      "authentication (is )?required",
      "smtp auth",
      "not a (gateway|relay)",
    ],
  },
  {
    reason: "system",
    source: "RFC 3463 X.3.x and X.4.3: a lookup that failed; translations observed",
    phrases: [
      "(transient|temporaire*|temporal*|временн*|temporane*) .. (fail*|error|unavailable|problem|issue|unable|недоступ*|erreur|fehler)",
      "(internal|server|software|configuration|database|ldap|lookup|backend|processing|program) (error|failure|problem|misconfigur*|failed|trouble)",
      "(lookup|check|service) .. (timeout|timed out|unavailable)",
      "(could not|cannot|unable to|cant) (verify|check|contact|connect|open|create|write|lock|determine|access)",
      "temporar*",
      "(vorubergehend|temporaneamente|temporalmente|временно)",
      "(临时|一時的)",
      "try again later",
      "host not found try again",
      "(cname|dns|mx|host) lookup .. temporar*",
      "servfail",
      "暂时",
      "稍后",
      "稍後",
      "しばらく",
    ],
  },
];

/** These overrule a hard code, and not words that say plainly that nobody is there. */
export const LIVING_PERHAPS: readonly PhraseGroup[] = [
  {
    reason: "spam",
    source: "single words that no reply about a missing mailbox needs",
    phrases: [
      "(spam*|junk*|abus*|bulk|suspicious|unwanted|virus*|attachment*|executable*|reputation|listed)",
      "(message|mail|email|connection|delivery|access|service) (refused|denied|blocked|forbidden|unavailable)",
      "(not welcome|go away|forbidden)",
      "(拒收|拒绝|拒絕|拒否|限制|制限)",
    ],
  },
  {
    reason: "system",
    source: "single words of something that passes",
    phrases: [
      "(later|retry|busy|defer*|delay*|wait|timeout|timed out|concurrent|currently)",
      "at (this|the) (time|moment)",
      "(plus tard|mas tarde|mais tarde|piu tardi|spater|erneut|позже|novamente|nuevamente)",
    ],
  },
  {
    reason: "protocol",
    source: "RFC 5321, Postfix, Exchange: complaints about the conversation",
    phrases: [
      "(protocol|command|pipelining) .. (error|violation)",
      "(bare (lf|newline|cr)|fully qualified|bad sequence)",
    ],
  },
  {
    reason: "sender",
    source: "replies that speak of whoever sends: Postfix, Microsoft, Exim",
    phrases: [
      "(your|the sending|sending) (domain|host|server|ip|hostname|mail server|mta|address|isp|network|system)",
      "your (mail|message|email|e mail) .. (rejected|refused|blocked|looks|contains|content|violates)",
      "(envelope|mail) from",
      "client host",
    ],
  },
  {
    reason: "policy",
    source: "RFC 3463 X.7.1, Exchange transport rules, mailing lists, allow-lists, challenge systems",
    phrases: [
      "(by|due to|violates|against|because of|under|of|per|to) .. (policy|policies)",
      "policy",
      "(not|isnt|arent) (allowed|permitted|authorized|authorised|accepted|willing) (to|from|by|for)",
      "not (authorized|authorised|allowed|permitted)",
      "administrative* (prohibit*|restrict*|prohibition|denied)",
      "members (only|list)",
      "(protected|confirm*)",
      "from (outside|external|the internet|you|this sender|your|unknown|unauth*|this address|this domain)",
      "(external|outside|internet|unauthenticated|anonymous) (sender*|mail|email|messages|addresses)",
      "(approved|known|trusted|verified) senders",
      "(opted out|unsubscribed|suppression list)",
      "unauthori*",
      "only (members|subscribers|accept*|authenticated|authorized|internal|registered)",
      "(not|isnt) .. (subscribed|a member|on .. list)",
      "(restricted|closed|moderated|private) (list|group|recipient|address|mailing)",
      "(allow|white|safe) *list*",
      "(allow|white|safe)list*",
      "recipients preferences",
      "recipient preferences",
      "(user|recipient|account) .. (rules|filter|filters|refuse* to accept|does not want|doesnt want)",
      "(protected|screened|verified) by",
      "challenge",
      "your access",
      "permission* .. (denied|to send)",
      "rejected by (recipient|user|the recipient)",
      "security (reasons|policy|policies|restrict*)",
      "prohibited",
      "batv",
      "nicht (berechtigt|erlaubt|zugelassen|autorisiert)",
      "(pas|non|nao|no) .. (autorise*|autorizzat*|autorizad*)",
      "richtlinie*",
      "unzustellbar wegen",
      "politique",
      "politica",
      "политик*",
      "策略",
    ],
  },
  {
    reason: "system",
    source: "RFC 3463 X.3.x, Exim, Dovecot, Courier: trouble on the receiver's side",
    phrases: [
      "(temporar*|transient|currently|momentarily|vorubergehend*|temporaire*|temporal*|временн*|temporane*) .. (fail*|error|unavailable|problem|deferred|reject*|lookup|disabled|issue|not|out|block*|suspend*|indispon*|unable|refus*|недоступ*|erreur|fehler)",
      "temporar* ",
      "try (again|later|your|it)",
      "(please|will|and) (retry|resend|resubmit)",
      "retry (later|again)",
      "(internal|server|system|software|configuration|database|ldap|directory|lookup|local|backend|processing|program) (error|failure|problem|misconfigur*|failed|trouble)",
      "(lookup|verification|check|service) .. (failed|timeout|timed out|unavailable|not available)",
      "(could not|cannot|unable to|cant) (verify|check|contact|connect|look* up|open|create|write|lock|determine|access)",
      "(service|server|system|host) .. (unavailable|down|busy|overload*|shutting down|not available)",
      "(load average|overload*|low disk|i o error|read only)",
      "out of (memory|disk|resources)",
      "insufficient (system )?(resources|disk)",
      "mailbox .. (locked|busy|in use by)",
      "repeat (later|again)",
      "versuchen sie es",
      "spater (erneut|noch)",
      "reessayer",
      "intente",
      "riprova*",
      "повторите",
      "попробуйте",
      "稍后",
      "稍後",
      "请重试",
      "暂时",
      "しばらく",
    ],
  },
  {
    reason: "too_big",
    source: "RFC 1870, RFC 3463 X.2.3 and X.3.4",
    phrases: [
      "(message|mail|email|e mail|size|data|attachment) .. (too (big|large|long)|size (exceeds|limit|exceeded)|exceeds .. (size|maximum|limit)|larger than)",
      "(maximum|max|fixed) (message )?size",
      "nachricht .. zu gro(ss|ß)",
      "message trop (gros|volumineux|long)",
      "mensaje .. (grande|tamano)",
    ],
  },
  {
    reason: "expired",
    source: "RFC 3463 X.4.7; Postfix, Sendmail, Exim, Exchange, qmail: the words of a queue that gave up",
    phrases: [
      "(delivery|message|queue|retry|deferral) .. (expired|timeout exceeded|time expired|period)",
      "(been|was) in the queue too long",
      "in the queue too long",
      "not .. delivered .. within",
      "could not be delivered for",
      "(warning|delayed) .. (hours|still)",
      "(unable|not able|has not been able|could not) .. (deliver|delivered) .. (hours|days)",
      "maximum .. (time|retries|attempts)",
    ],
  },
  {
    reason: "network",
    source: "strerror(3) as Postfix, Exim, Sendmail and qmail quote it; DNS trouble that may pass",
    phrases: [
      "(connection|connect|session|conversation|operation|network) .. (timed out|refused|reset|lost|failed|dropped|closed|aborted|timeout|interrupted|died)",
      "(timed out|timeout) .. (while|during|connect*|waiting)",
      "no route to host",
      "network is unreachable",
      "host (is )?(unreachable|down)",
      "broken pipe",
      "lost connection",
      "(cname|dns|mx|host) lookup .. temporar*",
      "host not found try again",
      "servfail",
      "((alias|expansion|list) loop|loops back|mail loop|too many hops|hop count|routing loop|mail forwarding loop)",
      "couldnt establish .. connection",
      "wasnt able to establish",
      "(cannot|could not) .. (establish|connect)",
      "tls .. (handshake|fail*|required|error|not available|negotiat*)",
      "certificate ",
      "starttls",
    ],
  },
];

/** The mailbox may come back: no reason to suppress. Weighs as LIVING_PERHAPS does. */
export const INACTIVE: readonly PhraseGroup[] = [
  {
    reason: "mailbox_inactive",
    source: "RFC 3463 X.2.1, second half; Yahoo, QQ, Zimbra, Mail.ru, free mail providers",
    phrases: [
      "(account|mailbox|user|address|recipient|inbox|service) .. (suspended|inactive|locked|frozen|on hold|overdue|expired|dormant|not active|not activated|restricted|blocked|paused|maintenance|vacation|quarantin*|under review|migrat*|being moved)",
      "(inactive|suspended|locked|frozen|expired|inactivity|dormant) .. (account|mailbox|user|recipient|mail|address|new)",
      "extended inactivity",
      "(unpaid|non payment|nonpayment|billing|subscription) ",
      "archived recipient",
      "temporarily (inactive|disabled|closed)",
      "suspend* the service",
      "(konto|postfach) .. (gesperrt|inaktiv)",
      "(boite|compte) .. (archive*|suspendu*|desactiv*|inactif|bloque*)",
      "(cuenta|buzon) .. (suspendid*|inactiv*|bloquead*)",
      "(casella|account) .. (sospes*|disattiv*|inattiv*)",
      "(conta|caixa) .. (suspens*|inativ*|bloquead*)",
      "ящик .. (заблокирован|отключен|неактивен)",
      "(邮箱|帐号|账号|用户)(已|被|已被|)(冻结|锁定|禁用|停用|未激活)",
    ],
  },
];

/** Nobody is there. */
export const DEAD: readonly PhraseGroup[] = [
  {
    reason: "user_moved",
    source: "RFC 5321 551, RFC 3463 X.1.6",
    phrases: [
      "(user|recipient|mailbox|account|address|person) has (moved|been replaced|changed)",
      "has been replaced by",
      "user not local please try",
      "has (left|changed) .. (company|organi*|address|employ*)",
      "no longer (with|works|employed|working) ",
      "new (e mail |email |)address is",
    ],
  },
  {
    reason: "domain_unknown",
    source:
      "RFC 3463 X.1.2, Postfix, Sendmail, Exim, qmail, Exchange: what they say of a domain that DNS does not know",
    phrases: [
      "(host|domain|hostname) .. (unknown|not found|does not exist|doesnt exist|not exist|nonexistent|non existent)",
      "(unknown|no such|nonexistent|non existent|bad destination|illegal) (host|domain|mail host|hostname|system)",
      "(invalid|bad) (recipient|destination) (domain|host|hostname)",
      "recipient domain must exist",
      "all host address lookups failed permanently",
      "answer with no data",
      "name or service not known",
      "(nxdomain|no such domain)",
      "no (mx|mail exchanger*|mail server|a or mx|valid mx) .. (found|record|exist*|for)",
      "domain .. (not .. valid|no longer (exist*|valid)|expired)",
      "(domain|domaine|dominio|домен) .. (unbekannt|inexistant|n existe pas|no existe|inesistente|inexistente|не существует|не найден)",
      "域名不存在",
    ],
  },
  {
    reason: "no_mail",
    source: "RFC 7504, RFC 7505",
    phrases: [
      "indicated no smtp service",
      "null mx",
      "nullmx",
      "(domain|host|server) (does not|doesnt|never) (accept*|receive*) (any |)(mail|email|e mail|messages)(?! (from|with|over|without|that))",
    ],
  },
  {
    reason: "user_unknown",
    source:
      "RFC 5321 550, RFC 3463 X.1.1; Postfix, Exim, Sendmail, qmail, Courier, Dovecot, Cyrus, Exchange, Notes, Zimbra, GroupWise",
    phrases: [
      "(user|users|mailbox|mail box|account|recipient|recipients|address|addressee|alias|local part|localpart|inbox|person|login|@|email|username|login name|user name) .. (unknown(?! (error|reason|problem|failure|exception|status))|not found|not exist|doesnt exist|does not exist|dont exist|do not exist|nonexistent|non existent|unkown|no longer exists)",
      "(unknown|no such|nonexistent|non existent|invalid|invalid final delivery|unknown or illegal|bad destination|bad recipient|non*existing|unrecognized|unrecognised) (local |recipient |destination |virtual |final |user |mailbox |email |e mail |mail |to |rcpt |)(user|users|username|userid|user id|mailbox|mail box|recipient|recipients|account|address|addresses|addressee|alias|person|local part|localpart|name|inbox|receiver|destination)",
      "(user|mailbox|recipient|account|address|@) .. (is|are|was|were) (invalid|unknown|wrong|nonexistent|non existent)",
      "(user|mailbox|recipient|account|address|@) .. (could not|couldnt|cannot|cant) be (found|located)",
      "(user|mailbox|recipient|account|@) .. (wasnt|werent) found",
      "(user|mailbox|recipient|address|email|account) (invalid|missing|undeliverable unknown)",
      "(recipient|address|mailbox|user|@) .. (not|isnt|not a|isnt a) (valid|known|recogni*|listed|local|registered|present|a valid|a known|a local|our customer|a customer|a registered|exist|defined|in .. (directory|list|table|database|system|domain))",
      "(not|isnt) a (valid|known|local|registered|existing|recogni*) (user|mailbox|recipient|account|address|email|e mail|customer|subscriber)",
      "not (our|a) (customer|subscriber)",
      "(user|mailbox|recipient|address|account|@) .. (no longer (valid|exist*|in use|active|used|available|accept*|here|on .. (server|system))|never existed|has been (deleted|removed|closed|terminated|cancelled|canceled|deactivated permanently))",
      "(doesnt|does not|do not|dont) have .. (account|mailbox|user)",
      "(no|not any|there is no|isnt any) (mailbox|mail box|user|account|recipient|one|such|valid recipient*|local mailbox|matching) .. (by that name|with that name|at this address|here|found|of that name|exist*|at this|under that|for this|that name|in name|recipient*|match*)",
      "(nobody|no one|noone|no body) .. (here|that name|at this address)",
      "(dont|do not|doesnt|does not) know (anyone|anybody|that user|this user) ",
      "no such (one|address|person|mail address|email|list|group|object|entry|local|rcpt)",
      "no (valid )?recipients? (here|by|found)",
      "(cannot|cant|could not|couldnt|unable to|not able to) (find|locate|resolve) .. (user|recipient|mailbox|account)",
      "(cant|cannot) accept user",
      "(bad|wrong|incorrect|faulty) (destination |recipient |email |e mail |rcpt |)(mailbox |user |)(address|user|recipient|mailbox)",
      "user missing home directory",
      "(name|user|recipient|address) not found in .. directory",
      "not in .. (name|address|public|directory) (directory|book|list)",
      "not (present|listed|found) in .. (directory|address book|database|table)",
      "non repertorie",
      "(ディレクトリ|リスト)に(は)?(見つかりません|ありません)",
      "addresses were unknown",
      "badrcptto",
      "address (is |)(wrong|incorrect|misspel*)",
      "user (has |)(never |)(logged|registered) never",
      "(adresse|empfanger|benutzer|nutzer|postfach|konto|adressat|teilnehmer|user|mailbox) .. (unbekannt|existiert nicht|nicht (gefunden|vorhanden|bekannt|existent|existiert)|ungultig|gibt es nicht)",
      "(unbekannte*|ungultige*|kein solche*) (empfanger*|benutzer*|nutzer*|adress*|postfach|mailbox|user)",
      "existiert (hier |)nicht",
      "nicht im .. (verzeichnis|adressbuch)",
      "nicht im (verzeichnis|adressbuch)",
      "(utilisateur|destinataire|adresse|compte|boite|usager|bal|abonne) .. (inconnu*|inexistant*|n existe (pas|plus)|invalide|introuvable|non trouve*)",
      "(aucun|pas d) (utilisateur|destinataire|compte)",
      "(usuario|destinatario|cuenta|buzon|direccion|casilla|usuaria) .. (desconocid*|inexistente|no (existe|encontrad*|valid*|es valid*)|invalid*)",
      "no existe .. (usuario|cuenta|persona|buzon|direccion|destinatario)",
      "(utente|destinatario|casella|indirizzo|account) .. (sconosciut*|inesistente|non (esiste|trovat*|valid*|presente))",
      "nessun utente",
      "(usuario|destinatario|conta|caixa|endereco|utilizador|mailbox) .. (desconhecid*|inexistente|nao (existe|encontrad*|localizad*|valid*))",
      "(gebruiker|adres|postbus|mailbox|geadresseerde) .. (onbekend|bestaat niet|niet gevonden)",
      "onbekende (gebruiker|ontvanger)",
      "(ukjent|ukendt) (mottaker|modtager|bruker|bruger|adresse|e post adresse)",
      "okand (mottagare|anvandare|adress)",
      "tuntematon (vastaanottaja|kayttaja)",
      "ismeretlen (cimzett|felhasznalo)",
      "(utilizator|destinatar) (necunoscut|inexistent)",
      "αγνωστος (παραληπτης|χρηστης)",
      "(uzytkownik|uzytkownika|konto|adres|skrzynka|odbiorca) .. (nieznany|nie istnieje|nie znaleziono|nie zosta*)",
      "(nieznany|nie ma takiego) (uzytkownik*|odbiorca|adresu|konta)",
      "(uzivatel|schranka|adresa|adresat) .. (neexistuje|neznam*|nenalezen*)",
      "(kullanici|alici|adres|posta kutusu) .. (bulunamadi|yok|mevcut degil|bilinmiyor)",
      "(пользовател*|ящик*|адресат*|получател*|адрес*|аккаунт*|абонент*) .. (не (найден*|существует|существуют|зарегистрирован*|известен)|неизвест*|отсутствует|удален*|нет)",
      "(нет такого|неизвестный|несуществующий) (пользовател*|ящик*|адрес*|получател*|адресат*)",
      "такого пользователя нет",
      "(користувач*|скриньк*|адрес*|одержувач*|отримувач*) .. (не (існує|знайден*|зареєстрован*)|невідом*)",
      "(немає такого|невідомий|неіснуючий) (користувач*|адрес*|одержувач*|отримувач*)",
      "(用户|收件人|邮箱|信箱|邮箱地址|地址|邮件地址|帐号|账号|帐户|账户|帐戶|帳號|使用者|收件者|用戶)不存在",
      "(用户|收件人|邮箱|地址)未找到",
      "(无此|無此|找不到|查无此|查無此|没有该|沒有此)(用户|用戶|使用者|收件人|邮箱|账号|帐号|帳號|人)",
      "无效(的)?(收件人|用户|地址)",
      "宛先不明",
      "(ユーザ|ユーザー|宛先|メールアドレス|アドレス|アカウント|受信者)(が|は|の)?(存在しません|見つかりません|存在しない|不明)",
      "(atesaki|yuza|adoresu) .. (fumei|sonzai shimasen|mitsukarimasen)",
      "(존재하지|등록되지) 않*",
      "없는 (사용자|메일|수신자|계정)*",
    ],
  },
];

/** Dead where the enhanced code says so too; alone it may be a lock that opens again. */
export const DISABLED: readonly PhraseGroup[] = [
  {
    reason: "mailbox_disabled",
    source: "RFC 3463 X.2.1; Google, Yahoo, Zimbra, Exchange",
    phrases: [
      "(account|mailbox|user|address|recipient|mail) .. (disabled|deactivated|discontinued|closed|terminated|deleted|cancelled|canceled|not accepting|does not accept|unable to receive)",
      "(disabled|deactivated|discontinued|closed|deleted) .. (account|mailbox|user|recipient|address)",
    ],
  },
];

/** RFC 3463 details, without the class, that say by themselves what it is. Source: RFC 3463, 5248, 7372, 7504, 7505, 7293, IANA. */
export const REASON_OF_DETAIL: Readonly<Record<string, Reason>> = {
  "1.1": "user_unknown",
  "1.2": "domain_unknown",
  "1.3": "user_unknown",
  "1.4": "unknown",
  "1.6": "user_moved",
  "1.7": "sender",
  "1.8": "sender",
  "1.10": "no_mail",
  "2.1": "mailbox_inactive",
  "2.2": "mailbox_full",
  "2.3": "too_big",
  "2.4": "policy",
  "3.1": "system",
  "3.2": "system",
  "3.3": "system",
  "3.4": "too_big",
  "3.5": "system",
  "4.1": "network",
  "4.2": "network",
  "4.3": "network",
  "4.4": "network",
  "4.5": "system",
  "4.6": "network",
  "4.7": "expired",
  "5.1": "protocol",
  "5.2": "protocol",
  "5.3": "rate_limited",
  "5.4": "protocol",
  "5.5": "protocol",
  "7.1": "policy",
  "7.2": "policy",
  "7.13": "mailbox_inactive",
  "7.17": "user_moved",
  "7.18": "user_moved",
  "7.20": "authentication",
  "7.21": "authentication",
  "7.22": "authentication",
  "7.23": "authentication",
  "7.24": "authentication",
  "7.25": "authentication",
  "7.26": "authentication",
  "7.27": "sender",
};
