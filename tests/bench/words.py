"""The vocabulary of the corpus: most frequent first, since a word's rank decides how often it is drawn.

English function words and the words of people who run software, and the same for Chinese, as two-character
words and the particles between them.
"""

from __future__ import annotations

ENGLISH = """
the to of and a in is for that on it with we be this as not are by if from or at an was have when will can use
but which one all so no they has only more after before then there their than into its out up new time should
must may does now first run file user set line test code data service change name because value build need work
also make each same system any keep without server default error read write start stop every check still call
path list request deploy process version branch review message table config memory state page option limit
client token release query index log job cache host key task team port report node update field result delete
queue open customer session schema policy number size second minute failure retry timeout latency metric alert
dashboard backup restore migration database replica cluster container image registry pipeline merge commit
rollback feature flag endpoint payload header cookie gateway proxy router firewall certificate renewal secret
rotation permission role group account password login audit incident outage owner handover meeting decision
proposal draft deadline estimate sprint backlog ticket customer invoice billing currency discount subscription
tenant quota throttle worker scheduler cron batch stream topic partition offset consumer producer snapshot
checkpoint compaction shard leader follower election quorum heartbeat lease lock transaction isolation index
constraint foreign trigger procedure view materialized vacuum analyze explain plan cost buffer page segment
kernel module driver interrupt signal handler thread mutex semaphore deadlock starvation priority affinity
allocator arena fragment leak profile flame trace span sampler exporter collector agent sidecar mesh ingress
egress namespace cgroup capability seccomp sandbox overlay mount volume inode journal extent barrier fsync
checksum digest signature verify trust anchor chain revoke issuer audience scope claim refresh grant consent
locale charset unicode normalize collation fold glyph font render layout viewport scroll focus keyboard screen
reader contrast palette theme component widget modal toast banner tooltip accordion carousel breadcrumb
pagination filter sort facet suggestion synonym stemmer tokenizer ranking relevance snippet highlight embedding
vector distance recall precision threshold calibration drift baseline experiment hypothesis variance bootstrap
regression forecast seasonality anomaly outlier percentile histogram bucket cardinality rollup retention
archive purge lifecycle tier glacier egress bandwidth jitter packet congestion window handshake resume keepalive
multiplex framing compression dictionary entropy huffman delta varint protobuf avro parquet columnar predicate
pushdown broadcast shuffle skew spill watermark lateness idempotent dedupe ledger reconcile settlement escrow
""".split()

CHINESE = """
的 了 在 是 我们 和 不 要 有 这个 可以 用 对 就 如果 需要 已经 没有 因为 所以 但是 然后 之后 以前 现在 每次 问题
系统 服务 用户 数据 文件 项目 测试 代码 配置 版本 发布 部署 更新 修改 检查 记录 错误 日志 时间 结果 方案 接口 请求
返回 参数 默认 运行 启动 停止 重启 失败 成功 原因 影响 处理 流程 需求 设计 讨论 决定 约定 负责 同事 团队 会议 计划
进度 任务 优先 截止 文档 说明 示例 目录 路径 名称 内容 标题 列表 页面 按钮 样式 布局 字体 颜色 移动 桌面 浏览器 缓存
数据库 索引 查询 事务 备份 恢复 迁移 同步 异步 队列 消息 订阅 通知 告警 监控 指标 延迟 吞吐 并发 线程 进程 内存 磁盘
网络 带宽 连接 超时 重试 限流 熔断 降级 扩容 缩容 集群 节点 主库 从库 分片 副本 一致性 可用性 容灾 演练 故障 复盘
权限 账号 密码 登录 认证 授权 令牌 证书 加密 签名 审计 合规 隐私 脱敏 安全 漏洞 补丁 风险 评估 客户 订单 支付 退款
发票 账单 金额 货币 折扣 库存 物流 仓库 供应商 合同 报价 预算 成本 收入 增长 转化 留存 渠道 活动 推广 运营 分析 报表
模型 训练 推理 特征 样本 标注 评测 指令 提示 上下文 检索 召回 排序 向量 相似度 阈值 分词 词典 摘要 翻译 语音 图像
前端 后端 框架 组件 依赖 打包 编译 脚本 容器 镜像 仓库 分支 合并 评审 回滚 灰度 开关 环境 预发 线上 本地 调试 断点
性能 优化 瓶颈 压测 基准 采样 火焰图 垃圾回收 泄漏 死锁 竞态 原子 幂等 去重 对账 结算 清算 归档 保留 清理 巡检 值班
""".split()

TOPICS = """
deploy billing onboarding search login storage network release incident review backup migration metrics design
preferences glossary decisions roadmap handover vendors
""".split()

PROJECTS = "atlas beacon cedar delta ember falcon garnet harbor indigo juniper kepler lumen".split()

PLACES_CHINESE = "部署 账单 入职 检索 登录 存储 网络 发布 故障 评审 备份 迁移".split()

PLANTED = {
    # word: in about how many documents of the large corpus it stands, once each
    "kestrelwing": 1,
    "Zanzibarite": 3,
    "obsidianflux": 12,
    "quillfeather": 40,
    "青龙偃月": 2,
    "琥珀色": 9,
    "云梦泽": 36,
}
"""Rare words, so that the rare queries hit what was put there."""
