"""The texts of the demo: what a small team would really keep, in English and Chinese."""

from __future__ import annotations

MEMORY = """\
# Memory

- Answer in the language of the question; code comments in English.
- Web shop: see projects/shop/decisions.md before proposing an architecture.
- 部署前先读 运维/部署手册.md。
"""

DECISIONS = """\
---
title: Web shop, decisions
---
# Decisions

## Database: PostgreSQL 15

Chosen over MySQL in March for partial indexes and `LISTEN`. Connections go through pgbouncer in
transaction mode, so no session-level `SET` and no advisory locks that outlive a transaction.

## Deploy on Tuesdays

Releases go out on Tuesday, 10:00, never on Friday. Roll back with `deploy --previous`.
"""

CORRECTED = DECISIONS.replace(
    "Releases go out on Tuesday, 10:00, never on Friday.",
    "Releases go out on Tuesday and Thursday, 10:00 (since the autumn), never on Friday.",
)

RUNBOOK = """\
# 部署手册

## 上线步骤

1. 在测试环境跑完回归用例，确认数据库迁移可以回滚。
2. 周二上午十点开始部署，先灰度百分之五的流量，观察十五分钟。
3. 错误率高于千分之一就执行 `deploy --previous` 回滚。

## 常见问题

- 用户身份校验失败：先检查时钟是否同步，再看令牌是否过期。
- pgbouncer 连接数打满：把慢查询找出来，不要先加连接数。
"""


def incident_log() -> str:
    """A document of about 13 KB: longer than one answer, which holds 8 KiB."""
    lines = ["# Incident log, checkout service", ""]
    causes = (
        "connection pool exhausted by a slow report; report moved to the replica",
        "certificate of the payment gateway expired; renewal is now monitored",
        "cache stampede after a restart; keys get a random extra minute",
        "clock drift on node 3, tokens refused; chrony was not running",
        "disk full on the log volume; rotation was off by one directory",
    )
    for number in range(1, 121):
        lines.append(f"- Incident {number:03}: {causes[number % len(causes)]}. Lasted {number % 47 + 3} minutes.")
    lines += ["", "Last line of the log: nothing of this document was cut off."]
    return "\n".join(lines) + "\n"
