"""The entities of the demo tenant: the data platform of Harbour & Pine, a furniture retailer with warehouses
and vans.

One entity per line, indented below its container: `[planned|deleted] kind name | description`. The kind of a
program is its type.
"""

ENTITIES = r"""
instance cdap | The data platform of Harbour & Pine: 140 stores, two warehouses, one web shop
kerberosprincipal etl/ingest01.example.com@CORP.EXAMPLE | Nightly ingestion jobs run as this one
kerberosprincipal etl/ingest02.example.com@CORP.EXAMPLE | Standby of ingest01, same keytab rotation
kerberosprincipal svc-orders/orders.example.com@CORP.EXAMPLE | Owner of everything that order capture creates
kerberosprincipal svc-routing/fleet.example.com@CORP.EXAMPLE | Route planning and the vans' GPS feed
kerberosprincipal svc-ledger/ledger.example.com@CORP.EXAMPLE | General ledger; keytab lives in the finance vault
kerberosprincipal svc-campaigns@CORP.EXAMPLE
kerberosprincipal svc-fraud/score.example.com@CORP.EXAMPLE | Online fraud scoring
kerberosprincipal kenji.tanaka@CORP.EXAMPLE | Personal principal, used for experiments in the sandbox
deleted kerberosprincipal svc-wholesale@CORP.EXAMPLE | Retired with the wholesale business

namespace sales | Orders, baskets, prices and stock of all channels
  artifact order-pipelines-2.4.1 | Code of order capture and the nightly roll-ups
  artifact order-pipelines-2.5.0-rc1 | Release candidate, do not deploy before the stocktake
  artifact price-rules-1.9.0
  artifact cdap-data-pipeline-6.4.1 | Plugin bundle of the vendor, used by the drag-and-drop pipelines
  artifact pos-connector-3.1 | Reads the tills of all stores
  application order_capture | Brings orders from tills, web shop and call centre into one stream
    flow checkout_intake | Validates every checkout before anything else sees it
    flow till_intake
    worker callcentre_poller | Polls the call centre's mailbox export every two minutes
    service order_status | Behind "where is my order" in the web shop
    workflow order_repair | Replays rejected checkouts; run by hand after an outage
  application order_rollups | Daily and hourly figures for stores and headquarters
    workflow daily | Starts at 02:30, must be done before the stores open
    mapreduce orders_by_day
    mapreduce orders_by_store
    spark basket_affinity | What is bought together, for the shelf planners
    workflow month_end
  application price_engine | Price lists, promotions and end-of-line reductions
    service price_lookup | 30 ms budget at the till
    spark promotion_impact
    worker price_tag_sync | Pushes prices to the electronic shelf labels
    workflow publish_prices
  application stock_mirror | Copy of the warehouse stock for the web shop's "available today"
    flow stock_deltas
    service stock_lookup
    worker stock_compare | Compares with the warehouse once an hour and complains
  application customer_360 | One customer, all channels; personal data, handle with care
    spark match_customers
    workflow nightly_match
    service customer_lookup
    mapreduce erasure_requests | Deletes what a customer asked us to delete
  deleted application click_collect_v1 | First click & collect, replaced by order_capture in 2023
    deleted flow reservations
    deleted service pickup_board
    deleted worker sms_sender
  stream web-checkouts
  stream till-receipts | One event per receipt, 1.1 million on a Saturday
  stream price-changes
  stream returns-desk
  dataset orders | The orders of all channels, one row an order
  dataset orders.by.day
  dataset orders.by.store
  dataset orders.rejected | Checkouts that failed validation, kept for 30 days
  dataset order$lines | Lines of an order; the $ is historical, the tills cannot cope with a new name
  dataset prices.current
  dataset prices.history
  dataset promotions
  dataset stock.by.store
  dataset customers | Names, addresses, consents. Access is reviewed every quarter
  dataset customers.matched
  dataset baskets.affinity
  dataset returns
  dataset gift.cards
  deleted dataset click.collect.slots
  dataset_module com.example.retail.OrderTable
  dataset_module com.example.retail.PriceTable
  dataset_module com.example.retail.CustomerIndex
  dataset_type com.example.retail.OrderTable
  dataset_type com.example.retail.OrderTable$ByStore | Partitioned by store number
  dataset_type com.example.retail.PriceTable
  dataset_type com.example.retail.CustomerIndex
  securekey webshop-api-token | Rotated on the first Monday of the month
  securekey till-gateway-cert
  securekey customer-hash-salt | Never rotate without telling marketing: all segments break

namespace logistics | Warehouses, vans and deliveries
  artifact routing-4.0.2 | Solver and map data
  artifact warehouse-sync-1.12.0
  artifact telematics-0.9.7 | Supplied by the van leasing company
  artifact cdap-data-pipeline-6.4.1
  application route_planner | Plans tomorrow's tours for 212 vans
    workflow plan_tours | 18:00 every day, results must be out by 19:15
    spark optimise_tours | The solver; tuned by data science, hands off before Christmas
    spark travel_times
    service eta_api | Delivery window shown to customers and drivers
    worker gps_listener
  application warehouse_sync | Stock movements of both warehouses
    flow goods_in
    flow goods_out
    mapreduce stock_snapshot
    workflow nightly_count
    worker scanner_gateway | Handheld scanners, floors 1 to 4
  application demand_forecast | How much of what, where, in six weeks
    spark train_demand | Retrained on Sundays
    spark score_demand
    workflow weekly_forecast
  application store_deliveries | Pallets from the warehouse to the stores
    service delivery_board | The screen beside the back door of every store
    workflow assign_docks
    flow pallet_scans
  application carrier_invoices
    workflow monthly_check | Compares carriers' invoices with what was driven
    mapreduce match_invoices
  stream van-positions | Every van, every 10 seconds
  stream warehouse-scans
  stream delivery-events
  stream dock-sensors
  dataset tours | Planned tours, one row a stop
  dataset tours.actual
  dataset stops.history
  dataset stock.warehouse
  dataset stock.movements
  dataset travel.times
  dataset forecasts.demand
  dataset forecasts.demand.archive
  dataset deliveries
  dataset deliveries.late | What was late, and why, as far as the driver told us
  dataset carriers
  dataset carriers.invoices
  dataset pallets
  dataset van$maintenance
  deleted dataset bike.couriers.pilot | Pilot in Malmö, ended after the winter
  dataset_module com.example.fleet.TourTable
  dataset_module com.example.fleet.GeoIndex
  dataset_type com.example.fleet.TourTable
  dataset_type com.example.fleet.GeoIndex
  dataset_type com.example.fleet.GeoIndex$Tile
  securekey maps-licence-key
  securekey telematics-password | Belongs to the leasing company's portal
  securekey carrier-edi-key

namespace finance | Ledger, invoices, payroll and the month-end close
  artifact ledger-jobs-5.2.0 | Audited build: the checksum is in the release note
  artifact vat-rules-2026.1
  artifact bank-formats-1.4 | camt.053 and MT940
  application ledger_close | The month-end close; no deployments between the 28th and the 5th
    workflow month_end
    workflow year_end
    mapreduce post_journals
    spark accruals
    service close_status
  application invoice_matching | Supplier invoices against orders and goods received
    flow invoice_intake
    mapreduce three_way_match
    workflow daily_match
    worker mailbox_reader | Reads the PDF mailbox of accounts payable
  application payroll_feed | Hours and shifts in, payment file out
    workflow monthly_payroll
    mapreduce hours_by_employee
    worker bank_upload
  application treasury | Cash position of all accounts, every morning
    workflow cash_position
    flow bank_statements
    service fx_rates
  application vat_return
    workflow quarterly_return
    spark vat_checks
  stream supplier-invoices
  stream bank-feed
  stream expense-claims
  dataset ledger | The general ledger. Append only
  dataset ledger.trial.balance
  dataset ledger.adjustments
  dataset invoices.supplier
  dataset invoices.matched
  dataset invoices.disputed
  dataset payroll.hours
  dataset payroll.payments | Salaries. Two people may read this, and they know who they are
  dataset cash.positions
  dataset fx.rates
  dataset vat.returns
  dataset budget.2026
  dataset budget.2025
  dataset cost.centres
  dataset expense.claims
  deleted dataset payroll.export | Extract for the change of payroll provider in 2024; removed afterwards
  deleted dataset budget.2019
  dataset_module com.example.finance.LedgerTable
  dataset_module com.example.finance.PaymentFile
  dataset_type com.example.finance.LedgerTable
  dataset_type com.example.finance.LedgerTable$Frozen | A closed month
  dataset_type com.example.finance.PaymentFile
  securekey bank-signing-key | Signs the payment file; the second half of the key is on paper
  securekey ledger-db-password
  securekey tax-portal-cert | Expires in March, ask Ingrid

namespace marketing | Campaigns, segments and the loyalty club
  artifact segments-3.3.0
  artifact campaign-tools-1.7.2
  artifact web-events-0.14 | Cookie banner rules included since 0.12
  artifact cdap-data-pipeline-6.4.1
  application campaigns | E-mail, post and the screens in the stores
    workflow send_campaign | Asks for a second pair of eyes above 50,000 recipients
    spark pick_recipients
    service unsubscribe | Must answer within a day, by law. It answers at once
    worker bounce_reader
  application segments
    workflow refresh_segments
    spark cluster_customers
    mapreduce count_segments
    service segment_lookup
  application loyalty_club | 1.4 million members, points and vouchers
    flow points_intake
    service points_balance
    workflow expire_points
    mapreduce voucher_totals
  application web_analytics
    flow page_views
    spark sessions
    workflow daily_funnel
  planned application churn_radar | Who is about to leave us. Goes live with the autumn campaign
    planned spark train_churn
    planned workflow weekly_scores
    planned service score_api
  stream page-views
  stream email-events
  stream loyalty-scans
  dataset segments
  dataset segments.history
  dataset campaigns
  dataset campaigns.results
  dataset recipients.blocked | Never write to these people. Really
  dataset loyalty.members
  dataset loyalty.points
  dataset vouchers
  dataset sessions.by.day
  dataset funnel
  dataset newsletter.archive
  planned dataset churn.scores
  deleted dataset loyalty.cards.2019
  dataset_module com.example.crm.SegmentTable
  dataset_type com.example.crm.SegmentTable
  dataset_type com.example.crm.SegmentTable$Snapshot
  securekey mail-provider-token
  securekey social-ads-token

namespace risk | Fraud, credit and the watch list
  artifact fraud-models-7.1.0
  artifact fraud-models-7.2.0 | In shadow mode until the false positives are below 2 %
  artifact credit-check-2.2
  application fraud_scoring | Scores every order above 80 euros before it is packed
    service score_order
    spark train_fraud
    workflow retrain
    flow order_signals
    worker case_sync | Opens cases in the fraud desk's tool
  application credit_check | Pay later: may this customer?
    service limit_lookup
    mapreduce bureau_import
    workflow weekly_limits
  application chargebacks
    workflow match_chargebacks
    spark chargeback_patterns
    worker bank_notices
  application store_shrinkage | Stock that vanishes between the dock and the till
    spark anomaly_by_store
    workflow monthly_report
  stream order-signals
  stream chargeback-notices
  stream device-fingerprints
  dataset fraud.cases
  dataset fraud.scores
  dataset fraud.labels | Decided by people, not by the model
  dataset watchlist | Persons and addresses we do not deliver to. Kept by Amara alone, on legal advice
  dataset credit.limits
  dataset credit.bureau.raw
  dataset chargebacks
  dataset shrinkage.by.store
  dataset devices
  deleted dataset fraud.cases.2019
  dataset_module com.example.risk.ScoreTable
  dataset_type com.example.risk.ScoreTable
  dataset_type com.example.risk.ScoreTable$Shadow
  securekey bureau-api-key
  securekey fraud-desk-token

namespace sandbox | Try things out here; nothing in it is backed up
  artifact scratch-pipelines-0.0.3
  artifact wrangler-4.4.0
  application recommender_poc | Nearest-neighbour recommendations, Kenji's experiment
    spark neighbours
    service try_it
    workflow rebuild
  application weather_impact | Does rain sell umbrellas? (It does.)
    spark correlate
    mapreduce weather_import
  application kafka_bridge
    flow mirror
    worker heartbeat
  stream demo-events
  stream weather-feed
  dataset orders.sample | One percent of a week, names removed
  dataset weather.daily
  dataset neighbours
  dataset scratch.lars
  dataset scratch.priya
  dataset_module com.example.scratch.ToyTable
  dataset_type com.example.scratch.ToyTable
  securekey weather-api-key

deleted namespace wholesale | Sold in 2022; the buyer took the data along
  deleted application dealer_portal
    deleted service dealer_orders
    deleted workflow dealer_statements
  deleted dataset dealers
  deleted dataset dealer.discounts
"""
